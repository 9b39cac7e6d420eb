//! A command over SPDY: a stream each for `error`, `stdin`, `stdout`, `stderr` and `resize`.

use super::exec::{lost, refusal, shown, status};
use super::spdy::{self, CANCEL, Event, Frames, Outbox, PROTOCOL_ERROR};
use super::upgrade::Bidirectional;
use super::{ExecOutput, Output, Wanted};

/// The streams of one command.
#[derive(Clone, Copy, Debug, Default)]
struct Streams {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
}

impl Streams {
    fn complete(&self, wanted: Wanted) -> bool {
        let stderr = wanted.stderr && !wanted.tty;
        self.error.is_some()
            && (self.stdin.is_some() || !wanted.stdin)
            && (self.stdout.is_some() || !wanted.stdout)
            && (self.stderr.is_some() || !stderr)
    }
}

/// Carries a command's output to the client, then its Status.
pub(super) async fn serve(
    stream: Bidirectional,
    started: impl Future<Output = Output>,
    wanted: Wanted,
) {
    let (mut frames, outbox, writing) = spdy::open(stream);
    let session = async {
        let Some(streams) = opened(&mut frames, &outbox, wanted).await else {
            return;
        };
        let output = started.await;
        // One future for the whole time: half a frame would be lost with it.
        let gone = until_gone(&mut frames);
        tokio::pin!(gone);
        tokio::select! {
            () = run(&outbox, output, streams, wanted) => {}
            () = &mut gone => return,
        }
        // Until the client has read everything.
        gone.await;
    };
    tokio::select! {
        () = session => {}
        () = writing => {}
    }
}

/// Waits for all streams that the request promised.
async fn opened<R: tokio::io::AsyncRead + Unpin>(
    frames: &mut Frames<R>,
    outbox: &Outbox,
    wanted: Wanted,
) -> Option<Streams> {
    let mut streams = Streams::default();
    while !streams.complete(wanted) {
        let (stream, headers) = match frames.next().await.ok()?? {
            Event::Open { stream, headers } => (stream, headers),
            Event::GoAway => return None,
            Event::Data { .. } | Event::End { .. } | Event::Reset { .. } => continue,
        };
        let kind = headers.iter().find(|(name, _)| name == "streamtype");
        let place = match kind.map(|(_, value)| value.as_str()) {
            Some("error") => &mut streams.error,
            Some("stdin") => &mut streams.stdin,
            Some("stdout") => &mut streams.stdout,
            Some("stderr") => &mut streams.stderr,
            Some("resize") => {
                frames.reply(stream).await;
                continue;
            }
            _ => {
                outbox.reset(stream, PROTOCOL_ERROR).await;
                continue;
            }
        };
        *place = Some(stream);
        frames.reply(stream).await;
    }
    Some(streams)
}

/// Reads what the client sends and drops it; ends when the client does.
async fn until_gone<R: tokio::io::AsyncRead + Unpin>(frames: &mut Frames<R>) {
    loop {
        match frames.next().await {
            Ok(Some(Event::GoAway) | None) | Err(_) => return,
            Ok(Some(Event::Open { stream, .. })) => frames.reply(stream).await,
            Ok(Some(_)) => {}
        }
    }
}

async fn run(outbox: &Outbox, output: Output, streams: Streams, wanted: Wanted) {
    let said = match output {
        Err(why) => refusal(&why),
        Ok(mut output) => loop {
            match output.recv().await {
                Some(ExecOutput::Exit(code)) => break status(code),
                None => break lost(),
                Some(piece) => {
                    let Some((channel, bytes)) = shown(piece, wanted) else {
                        continue;
                    };
                    let stream = if channel == 1 {
                        streams.stdout
                    } else {
                        streams.stderr
                    };
                    if let Some(stream) = stream
                        && !outbox.data(stream, &bytes).await
                    {
                        return;
                    }
                }
            }
        },
    };
    if let Some(error) = streams.error {
        outbox.data(error, said.to_string().as_bytes()).await;
    }
    for stream in [streams.stdout, streams.stderr, streams.error]
        .into_iter()
        .flatten()
    {
        outbox.end(stream).await;
    }
    if let Some(stdin) = streams.stdin {
        outbox.reset(stdin, CANCEL).await;
    }
}
