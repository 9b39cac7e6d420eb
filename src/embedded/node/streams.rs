//! How the API reaches into pods: commands in containers, and connections to their ports.
//!
//! [`Streams`] outlives a life of the node, like its logs and address book; the node of the moment answers.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::addresses::AddressBook;
use super::watch::Command;
use crate::embedded::api::streams::{ExecOutput, ExecRequest, PodStreams, PodTarget};

/// What a started command says, or why it was not started.
pub(super) type Started = Result<mpsc::Receiver<ExecOutput>, String>;

/// Commands and connections into the pods of a node.
#[derive(Clone, Debug)]
pub struct Streams {
    addresses: AddressBook,
    node: Arc<Mutex<Option<mpsc::UnboundedSender<Command>>>>,
}

impl Streams {
    /// Streams of a node that keeps its sockets in `addresses`.
    #[must_use]
    pub fn new(addresses: AddressBook) -> Streams {
        Streams {
            addresses,
            node: Arc::default(),
        }
    }

    /// A node begins its life.
    pub(super) fn set_node(&self, commands: mpsc::UnboundedSender<Command>) {
        *self.node.lock().unwrap_or_else(PoisonError::into_inner) = Some(commands);
    }

    /// False when no node lives.
    fn ask(&self, command: Command) -> bool {
        let node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        node.as_ref().is_some_and(|node| node.send(command).is_ok())
    }
}

impl PodStreams for Streams {
    fn connect(&self, pod: PodTarget, port: u16) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            let refused = || {
                let text = format!("dial tcp4 127.0.0.1:{port}: connect: connection refused");
                io::Error::new(io::ErrorKind::ConnectionRefused, text)
            };
            let address = self.addresses.socket(&pod.uid, port).ok_or_else(refused)?;
            TcpStream::connect(address).await.map_err(|_| refused())
        })
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Started> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            let missing = format!("container not found ({:?})", request.container);
            let asked = self.ask(Command::Exec { request, done });
            if !asked {
                return Err(missing);
            }
            answer.await.unwrap_or(Err(missing))
        })
    }
}
