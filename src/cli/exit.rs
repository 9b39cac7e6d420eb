//! Exit codes, and the errors that carry them.

use std::fmt::Display;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything was proven, or there was nothing to prove.
    Proven,
    /// A check was refuted or stayed unproven.
    NotProven,
    /// Wrong arguments, or a bad file.
    Usage,
    /// Could not look: no cluster, no directory, a taken port.
    Environment,
    /// A defect of eventlab.
    Internal,
    /// By SIGINT.
    Interrupted,
    /// By SIGTERM.
    Terminated,
    /// What runs inside a pod has codes of its own.
    Workload(u8),
}

impl Exit {
    /// The process's exit code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Exit::Proven => 0,
            Exit::NotProven => 1,
            Exit::Usage => 2,
            Exit::Environment => 3,
            Exit::Internal => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
            Exit::Workload(code) => code,
        }
    }
}

/// An error with the exit code that fits it.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    /// Wrong arguments or a bad file.
    pub fn usage(message: impl Display) -> Self {
        Self {
            exit: Exit::Usage,
            message: message.to_string(),
        }
    }

    /// Could not look.
    pub fn environment(message: impl Display) -> Self {
        Self {
            exit: Exit::Environment,
            message: message.to_string(),
        }
    }

    /// A defect.
    pub fn internal(message: impl Display) -> Self {
        Self {
            exit: Exit::Internal,
            message: message.to_string(),
        }
    }
}
