use flate2::{Compress, Compression, FlushCompress};
use proptest::prelude::*;

use super::*;

/// The other side of a connection, as a client writes it.
struct Client {
    deflate: Compress,
    bytes: Vec<u8>,
}

impl Client {
    fn new() -> Client {
        let mut deflate = Compress::new(Compression::default(), true);
        deflate.set_dictionary(&dictionary()).unwrap();
        Client {
            deflate,
            bytes: Vec::new(),
        }
    }

    fn open(&mut self, stream: u32, headers: &[(&str, &str)], fin: bool) {
        let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend_from_slice(&u32::try_from(text.len()).unwrap().to_be_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        let mut packed = Vec::with_capacity(block.len() + 256);
        self.deflate
            .compress_vec(&block, &mut packed, FlushCompress::Sync)
            .unwrap();
        let mut payload = stream.to_be_bytes().to_vec();
        payload.extend_from_slice(&[0; 6]);
        payload.extend_from_slice(&packed);
        let mut frame = control(SYN_STREAM, &payload);
        frame[4] = u8::from(fin);
        self.bytes.extend_from_slice(&frame);
    }
}

async fn events(bytes: &[u8]) -> (Vec<Event>, Option<io::Error>, Vec<u8>) {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (mut frames, outbox, writing) = open(near);
    drop(outbox);
    let writing = tokio::spawn(writing);
    far.write_all(bytes).await.unwrap();
    far.shutdown().await.unwrap();
    let mut events = Vec::new();
    let error = loop {
        match frames.next().await {
            Ok(Some(Event::Open { stream, headers })) => {
                frames.reply(stream).await;
                events.push(Event::Open { stream, headers });
            }
            Ok(Some(event)) => events.push(event),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    drop(frames);
    writing.await.unwrap();
    let mut written = Vec::new();
    far.read_to_end(&mut written).await.unwrap();
    (events, error, written)
}

#[test]
fn the_dictionary_is_the_drafts() {
    let bytes = dictionary();
    assert_eq!(bytes.len(), 1423);
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    // Its Adler-32, which every zlib stream that uses it carries.
    assert_eq!((b << 16) | a, 0xe3c6_a7c2);
}

#[tokio::test]
async fn streams_open_send_and_end() {
    let mut client = Client::new();
    client.open(1, &[("streamtype", "error"), ("port", "80")], true);
    client.open(3, &[("streamtype", "data"), ("port", "80")], false);
    client.bytes.extend_from_slice(&data(3, 0, b"hello"));
    client
        .bytes
        .extend_from_slice(&data(3, FIN, &[7; CHUNK + 1]));
    client
        .bytes
        .extend_from_slice(&control(PING, &[0, 0, 0, 9]));
    client
        .bytes
        .extend_from_slice(&control(RST_STREAM, &[0, 0, 0, 3, 0, 0, 0, 5]));
    let (events, error, written) = events(&client.bytes).await;
    assert!(error.is_none());
    let pairs = |kind: &str| {
        vec![
            ("streamtype".to_owned(), kind.to_owned()),
            ("port".to_owned(), "80".to_owned()),
        ]
    };
    let bytes = |bytes: &[u8]| Event::Data {
        stream: 3,
        bytes: bytes.to_vec().into(),
    };
    let open = |stream, kind| Event::Open {
        stream,
        headers: pairs(kind),
    };
    assert_eq!(
        events,
        [
            open(1, "error"),
            Event::End { stream: 1 },
            open(3, "data"),
            bytes(b"hello"),
            bytes(&[7; CHUNK]),
            bytes(&[7]),
            Event::End { stream: 3 },
            Event::Reset { stream: 3 },
        ]
    );
    let ping = control(PING, &[0, 0, 0, 9]);
    assert!(written.ends_with(&ping), "{written:?}");
}

#[tokio::test]
async fn replies_are_one_zlib_stream() {
    let mut client = Client::new();
    client.open(1, &[], false);
    client.open(3, &[], false);
    let (_, _, written) = events(&client.bytes).await;
    let mut inflate = Decompress::new(true);
    let mut rest = written.as_slice();
    let mut replies = 0;
    while let Some((head, tail)) = rest.split_first_chunk::<8>() {
        let length = usize::from(head[7]);
        assert_eq!(head[..4], [0x80, 3, 0, 2]);
        let (payload, tail) = tail.split_at(length);
        let mut out = Vec::with_capacity(64);
        inflate
            .decompress_vec(&payload[4..], &mut out, FlushDecompress::Sync)
            .unwrap();
        assert_eq!(out, [0, 0, 0, 0]);
        (rest, replies) = (tail, replies + 1);
    }
    assert_eq!(replies, 2);
}

#[tokio::test]
async fn what_is_no_spdy_ends_the_connection() {
    let mut bomb = Client::new();
    let long = "x".repeat(MAX_CONTROL + 1);
    bomb.open(1, &[("a", &long)], false);
    let mut many = Client::new();
    many.open(1, &[("a", "b"); MAX_HEADERS + 1], false);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0x80, 2, 0, 1, 0, 0, 0, 0],
        &[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff],
        &[0x80, 3, 0, 1, 0, 0, 0, 0],
        &control(SYN_STREAM, &[1; 40]),
        &bomb.bytes,
        &many.bytes,
    ] {
        let (events, error, _) = events(bytes).await;
        assert!(events.is_empty(), "{events:?}");
        // Cut off in the middle of what looks like data is a plain end.
        assert!(error.is_some() || bytes.first() == Some(&b'G'), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), control_frame in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let bytes = if control_frame { control(SYN_STREAM, &bytes) } else { bytes };
        runtime.block_on(events(&bytes));
    }
}
