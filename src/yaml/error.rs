//! Why a text is not YAML.

use std::fmt::{self, Display, Formatter};

use super::Mark;

/// A fault with its position. The words are libyaml's, which are also go-yaml's.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlFault {
    /// The stage that found the fault.
    pub stage: FaultStage,
    /// The fault.
    pub problem: &'static str,
    /// The position of the fault.
    pub mark: Mark,
    /// What was being read, and where it began.
    pub context: Option<(&'static str, Mark)>,
}

/// The stages of reading YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultStage {
    /// Bytes to characters.
    Reader,
    /// Characters to tokens.
    Scanner,
    /// Tokens to events.
    Parser,
}

impl YamlFault {
    /// A fault of the parser.
    pub const fn parser(problem: &'static str, mark: Mark, context: Option<(&'static str, Mark)>) -> Self {
        Self { stage: FaultStage::Parser, problem, mark, context }
    }
}

impl Display for YamlFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let place = |mark: Mark| format!("line {} column {}", mark.line + 1, mark.column + 1);
        write!(f, "{:?} error: {}: {}", self.stage, place(self.mark), self.problem)?;
        match self.context {
            Some((context, mark)) => write!(f, " {context} ({})", place(mark)),
            None => Ok(()),
        }
    }
}
