//! `--fail-on SEVERITY` of `static-pods lint` and `preflight`: which findings make the exit status 1.

use clap::ValueEnum;

use crate::cmd::Exit;
use crate::report::Severity;

/// The lowest severity that makes the exit status 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Errors: the kubelet refuses, ignores or stops something, or does not keep running
    #[value(alias = "critical")]
    Error,
    /// Warnings too: something that is probably a mistake
    Warning,
    /// Any finding
    Info,
    /// Nothing
    Never,
}

impl FailOn {
    /// Returns the exit status for the worst severity of all findings.
    pub fn exit(self, worst: Option<Severity>) -> Exit {
        let bad = match self {
            Self::Error => Severity::Error,
            Self::Warning => Severity::Warning,
            Self::Info => Severity::Info,
            Self::Never => return Exit::Good,
        };
        if worst.is_some_and(|worst| worst >= bad) { Exit::Bad } else { Exit::Good }
    }
}
