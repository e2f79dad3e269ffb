//! Why a text is not YAML.

use std::fmt::{self, Display, Formatter};

use super::Mark;

/// The construct in which a fault is, such as `while scanning a tag`, and the position at which it begins.
pub type FaultContext = Option<(&'static str, Mark)>;

/// A fault with its position. The texts are the same in libyaml and go-yaml.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlFault {
    /// The stage that found the fault.
    pub stage: FaultStage,
    /// The fault.
    pub problem: &'static str,
    /// The position of the fault.
    pub mark: Mark,
    /// The construct in which the fault is.
    pub context: FaultContext,
}

/// The stages of reading YAML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultStage {
    /// Decodes bytes into characters.
    Reader,
    /// Finds the tokens of the characters.
    Scanner,
    /// Makes events of the tokens.
    Parser,
}

impl YamlFault {
    /// Creates a fault that the parser found.
    pub const fn parser(problem: &'static str, mark: Mark, context: FaultContext) -> Self {
        Self { stage: FaultStage::Parser, problem, mark, context }
    }
}

impl Display for YamlFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let position = |mark: Mark| format!("line {} column {}", mark.line + 1, mark.column + 1);
        write!(f, "{:?} error: {}: {}", self.stage, position(self.mark), self.problem)?;
        match self.context {
            Some((context, mark)) => write!(f, " {context} ({})", position(mark)),
            None => Ok(()),
        }
    }
}
