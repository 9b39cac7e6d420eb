//! What goes wrong with one delivery, for labs and tests: the named points at which a run dies or stands still, and what
//! the CRM does to it.

use std::time::Duration;

use super::crm::FaultPoint;

/// Where a run dies, as by `kill -9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CrashPoint {
    /// The claim is taken, nothing was sent.
    AfterClaim,
    /// The write is announced, nothing was sent.
    BeforeWrite,
    /// The CRM has answered, the claim does not know.
    AfterWrite,
}

/// What goes wrong with one delivery, for the lab: where its run dies, stalls, or what the CRM does to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The run dies: the claim is taken, nothing was sent.
    AfterClaim,
    /// The run dies: the write is announced, nothing was sent.
    BeforeWrite,
    /// The run dies: the CRM has answered, the claim does not know.
    AfterWrite,
    /// The run sleeps after its claim until the claim is not its own any more, and then goes on.
    Stall,
    /// The CRM answers 503 and writes nothing.
    CrmBeforeCommit,
    /// The CRM writes and closes without an answer.
    CrmAfterCommit,
    /// The CRM writes and answers 500.
    CrmWrongAnswer,
    /// The CRM writes and its answer does not come in time.
    CrmHang,
}

impl Fault {
    /// Where the run dies.
    #[must_use]
    pub fn crash(self) -> Option<CrashPoint> {
        match self {
            Fault::AfterClaim => Some(CrashPoint::AfterClaim),
            Fault::BeforeWrite => Some(CrashPoint::BeforeWrite),
            Fault::AfterWrite => Some(CrashPoint::AfterWrite),
            _ => None,
        }
    }

    /// What the CRM is to do to the next request.
    #[must_use]
    pub fn at_crm(self) -> Option<FaultPoint> {
        match self {
            Fault::CrmBeforeCommit => Some(FaultPoint::BeforeCommit),
            Fault::CrmAfterCommit => Some(FaultPoint::AfterCommit),
            Fault::CrmWrongAnswer => Some(FaultPoint::WrongAnswer),
            Fault::CrmHang => Some(FaultPoint::Hang),
            _ => None,
        }
    }
}

/// A run that stands still goes on after so long of its own time.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// A fault, and what a run does at its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishap {
    pub fault: Fault,
    /// The run stands still at the point, for a minute, instead of dying there: so that a test can kill it, or the process
    /// that started it, exactly then. A fault of the CRM has its point where the CRM has done its part.
    pub hold: bool,
}

impl Mishap {
    /// A fault at its point, without standing still.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        Self { fault, hold: false }
    }

    /// Passes a point; does not come back where the run dies there.
    pub(super) fn reach(self, point: CrashPoint) {
        let of_crm = self.fault.at_crm().is_some() && point == CrashPoint::AfterWrite;
        if self.hold && (of_crm || self.fault.crash() == Some(point)) {
            std::thread::sleep(LONGEST_HOLD);
        } else if self.fault.crash() == Some(point) {
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            // The signal is on its way.
            std::thread::sleep(LONGEST_HOLD);
        }
    }
}
