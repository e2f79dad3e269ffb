//! [`Exit`]: how a command ended, and the exit status for it. A command that is interrupted before it has an answer
//! dies of the signal itself, which a shell also shows as 130.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The answer is good.
    Good,
    /// The answer is bad news.
    Bad,
    /// There is no answer.
    NoAnswer,
    /// The user interrupted the command; the answer is incomplete.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Good => 0,
            Exit::Bad => 1,
            Exit::NoAnswer => 2,
            Exit::Interrupted => 130,
        })
    }
}
