//! A real nats-server with JetStream on loopback, in a folder of its own; without the program its tests skip aloud.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Names the program where it is not on the path.
pub const PROGRAM: &str = "EVENTLAB_NATS_SERVER";

/// Settings of a server that is a NATS server only.
pub const WITHOUT_JETSTREAM: &str = "max_payload: 1MB";

/// The nats-server of this machine.
pub fn program() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Option<PathBuf> {
    let named = std::env::var_os(PROGRAM).map(PathBuf::from);
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        folders
    });
    let debian = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let candidates = on_path
        .chain(debian)
        .map(|folder| folder.join("nats-server"));
    let found = named
        .into_iter()
        .chain(candidates)
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!(
            "SKIPPED: no nats-server here (apt-get install nats-server, or name one in {PROGRAM}): the bus is tried without a real one"
        );
    }
    found
}

/// A running server. It ends with its value.
pub struct NatsServer {
    program: PathBuf,
    pub directory: tempfile::TempDir,
    /// Lines of its configuration beside port, monitor and store.
    settings: String,
    pub port: u16,
    pub monitor: u16,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one with more lines of configuration; `None` where there is no nats-server.
    pub fn start(settings: &str) -> Option<NatsServer> {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory, settings)
    }

    /// Starts one in a folder that holds files of its configuration.
    pub fn start_in(directory: tempfile::TempDir, settings: &str) -> Option<NatsServer> {
        let mut server = NatsServer {
            program: program()?,
            directory,
            settings: settings.to_owned(),
            port: 0,
            monitor: 0,
            child: None,
        };
        server.run();
        Some(server)
    }

    /// Runs it on the ports that it had, if it had any.
    pub fn run(&mut self) {
        let port = |port: u16| match port {
            0 => "-1".to_owned(),
            port => port.to_string(),
        };
        let folder = self.directory.path();
        let config = format!(
            "host: 127.0.0.1\nport: {}\nhttp: \"127.0.0.1:{}\"\nserver_name: test\n{}{}\n",
            port(self.port),
            port(self.monitor),
            if self.settings == WITHOUT_JETSTREAM {
                String::new()
            } else {
                format!(
                    "jetstream {{ store_dir: {:?}, max_mem: 64MB, max_file: 1GB }}\n",
                    folder.join("store")
                )
            },
            self.settings,
        );
        let path = folder.join("nats.conf");
        std::fs::write(&path, config).unwrap();
        let log = std::fs::File::create(folder.join("nats.log")).unwrap();
        let child = Command::new(&self.program)
            .arg("--config")
            .arg(&path)
            .arg("--ports_file_dir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let ports = folder.join(format!("nats-server_{}.ports", child.id()));
        self.child = Some(child);
        self.learn_ports(&ports);
    }

    fn learn_ports(&mut self, path: &std::path::Path) {
        let give_up = Instant::now() + Duration::from_secs(30);
        loop {
            let text = std::fs::read(path).unwrap_or_default();
            let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            let port = |kind: &str| {
                let url = value[kind][0].as_str()?;
                url.rsplit(':').next()?.parse().ok()
            };
            if let (Some(client), Some(monitor)) = (port("nats"), port("monitoring"))
                && std::net::TcpStream::connect(("127.0.0.1", client)).is_ok()
            {
                (self.port, self.monitor) = (client, monitor);
                return;
            }
            let log = || std::fs::read_to_string(self.directory.path().join("nats.log"));
            assert!(
                Instant::now() < give_up,
                "nats-server does not start: {:?}",
                log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Ends it at once, as a kill does; its files stay.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it in order; its files stay.
    pub fn terminate(&mut self) {
        self.signal(rustix::process::Signal::TERM);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Stops it (SIGSTOP) or lets it go on (SIGCONT): a server that hangs. It has stopped when this comes back.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let child = self.child.as_ref().unwrap();
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, signal).unwrap();
        if signal == rustix::process::Signal::STOP {
            while cfg!(target_os = "linux") && !all_stopped(child.id()) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A line to a server on which everything takes its time, each way.
pub struct SlowLine {
    pub port: u16,
}

impl SlowLine {
    /// To a port on this machine. It lasts as long as the process.
    pub fn to(server: u16, delay: Duration) -> SlowLine {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = std::net::TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let (back, forth) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || delayed(client, server, delay));
                std::thread::spawn(move || delayed(back, forth, delay));
            }
        });
        SlowLine { port }
    }
}

/// Hands on what comes, each piece so much later than it came.
fn delayed(mut from: std::net::TcpStream, mut to: std::net::TcpStream, delay: Duration) {
    use std::io::{Read as _, Write as _};
    let (sender, pieces) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        for (came, piece) in pieces {
            std::thread::sleep((came + delay).saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                break;
            }
        }
        // The other side may have ended it.
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if sender
            .send((Instant::now(), buffer[..length].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

/// Whether every thread of a process has stopped: the signal reaches one after the other.
fn all_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.trim_start().starts_with('T'))
    })
}
