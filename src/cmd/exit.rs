//! [`Exit`]: how a command ended, and its exit status. Without an answer to print, a command does not handle Ctrl-C:
//! the signal kills the process, and the shell shows 130 too.

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
    /// The user interrupted the command, which then printed an incomplete answer or none.
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
