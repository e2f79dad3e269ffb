//! The types of the fields of facts. A text from outside plegctl has a type that says what it is, so that an anonymised export
//! knows what to rename.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cri::Rpc;
use crate::diagnosis::words::{seconds, short};
use crate::report::{PodRef, Seconds, word_enum};

/// A measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Took(Seconds);

impl From<Duration> for Took {
    fn from(duration: Duration) -> Self {
        Self(duration.into())
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&seconds(self.0.duration()))
    }
}

/// A number with a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Decimal(Seconds);

impl From<f64> for Decimal {
    fn from(number: f64) -> Self {
        let sign = if number < 0.0 { -1 } else { 1 };
        let size = Duration::try_from_secs_f64(number.abs()).unwrap_or_default();
        Self(Seconds::from_nanos(i64::try_from(size.as_nanos()).unwrap_or(i64::MAX) * sign))
    }
}

/// Written with the digits that the format asks for: `{:.0}`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_f64().fmt(f)
    }
}

/// A sandbox or a container, with the names that are known. `{}` writes the names or else the short id, and `{:#}` the names
/// with the short id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Item {
    /// The full id.
    pub id: String,
    /// Its pod.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::report::optional_pod")]
    pub pod: Option<PodRef>,
    /// The container's name, if it is a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = short(&self.id);
        match (&self.pod, &self.container) {
            (Some(pod), Some(container)) => write!(f, "{pod}/{container}")?,
            (Some(pod), None) => write!(f, "{pod}")?,
            (None, _) => return f.write_str(short),
        }
        if f.alternate() { write!(f, " ({short})") } else { Ok(()) }
    }
}

/// A process: `containerd[812]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRef {
    /// Its name.
    pub name: String,
    /// Its id.
    pub pid: u32,
}

impl fmt::Display for ProcessRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.name, self.pid)
    }
}

/// Words of another program: an error message, a line of a journal, a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Quoted(pub String);

impl<T: fmt::Display> From<&T> for Quoted {
    fn from(words: &T) -> Self {
        Self(words.to_string())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A call, perhaps about a sandbox or a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    /// The RPC.
    pub rpc: Rpc,
    /// The sandbox or the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Item>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Some(item) => write!(f, "{} of {item}", self.rpc),
            None => write!(f, "{}", self.rpc),
        }
    }
}

word_enum! {
    /// What a list has.
    pub(crate) json enum Items: as_str {
        /// Sandboxes.
        Sandboxes = "sandbox",
        /// Containers.
        Containers = "container",
    }
}
