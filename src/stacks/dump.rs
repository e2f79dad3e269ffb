//! A parsed goroutine dump: goroutines with their states, frames and arguments.

use std::fmt;
use std::sync::Arc;

/// A name that many frames share.
pub type Name = Arc<str>;

/// The form of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// One goroutine after another, with states and arguments: `debug=2`, SIGUSR1.
    #[default]
    Traces,
    /// The form that the Go runtime writes when it ends a process: SIGQUIT, a panic.
    Crash,
    /// Equal stacks with their counts: `debug=1`. It has no ids, states, ages or arguments.
    Profile,
}

/// One dump of one process.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// The form.
    pub form: Form,
    /// All goroutines, in the dump's order.
    pub goroutines: Vec<Goroutine>,
    /// How many goroutines the dump announces: the headers seen, or the profile's own total.
    pub announced: u64,
    /// Lines in the dump that could not be parsed.
    pub not_understood: u64,
    /// When the dump was taken, if the dump contains that.
    pub taken_at: Option<String>,
}

impl Dump {
    /// How many goroutines the dump contains.
    pub fn count(&self) -> u64 {
        self.goroutines.iter().map(|goroutine| goroutine.count).sum()
    }
}

/// One goroutine, or in a profile all goroutines with the same stack.
#[derive(Clone, Debug, Default)]
pub struct Goroutine {
    /// The goroutine's id; `None` in a profile.
    pub id: Option<u64>,
    /// How many goroutines this is: 1 except in a profile.
    pub count: u64,
    /// The state in the Go runtime's words: `select`, `sync.Mutex.Lock`. Empty in a profile.
    pub state: Name,
    /// For how long at least, in whole minutes.
    pub minutes: Option<u32>,
    /// Whether it may run on one thread only.
    pub locked_to_thread: bool,
    /// The labels that the program set.
    pub labels: Vec<(String, String)>,
    /// The frames, innermost first.
    pub frames: Vec<Frame>,
    /// The function that started it.
    pub created_by: Option<Creator>,
    /// Frames that the Go runtime left out.
    pub elided: u64,
    /// Whether the Go runtime could not read the stack.
    pub unavailable: bool,
}

/// The `go` statement that started a goroutine.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The function.
    pub function: Name,
    /// The goroutine that executed it, since Go 1.21.
    pub goroutine: Option<u64>,
}

/// One frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Import path, receiver and name.
    pub function: Name,
    /// The arguments as tokens.
    pub arguments: Box<[Token]>,
    /// Whether the call was inlined, so that its arguments are not known.
    pub inlined: bool,
    /// File and line.
    pub place: Option<(Name, u32)>,
}

/// A part of an argument list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// The start of a structure, string, slice or interface.
    Open,
    /// The end of it.
    Close,
    /// One machine word.
    Word {
        /// The value.
        bits: u64,
        /// False if the Go runtime marks the value as possibly stale.
        certain: bool,
    },
    /// A word with an unknown value.
    Hidden,
    /// Arguments that the Go runtime left out.
    More,
}

impl Frame {
    /// The receiver's type with its package, for a method of a pointer: `path/bbolt.(*DB)`.
    pub fn receiver_type(&self) -> Option<&str> {
        let start = self.function.find(".(*")?;
        let end = self.function.get(start..)?.find(')')?;
        self.function.get(..=start + end)
    }

    /// The first argument, if it is a word.
    pub fn first_word(&self) -> Option<(u64, bool)> {
        match self.arguments.first() {
            Some(Token::Word { bits, certain }) => Some((*bits, *certain)),
            _ => None,
        }
    }

    /// The receiver's address, for a method of a pointer and if known.
    pub fn receiver(&self) -> Option<(u64, bool)> {
        self.receiver_type()?;
        self.first_word()
    }

    /// All words.
    pub fn words(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.arguments.iter().filter_map(|token| match token {
            Token::Word { bits, certain } => Some((*bits, *certain)),
            _ => None,
        })
    }

    /// The words that are arguments themselves, not parts of a string, slice or interface.
    pub fn outer_words(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let mut depth = 0_usize;
        self.arguments.iter().filter_map(move |token| {
            match token {
                Token::Open => depth += 1,
                Token::Close => depth = depth.saturating_sub(1),
                Token::Word { bits, certain } if depth == 0 => return Some((*bits, *certain)),
                Token::Word { .. } | Token::Hidden | Token::More => {}
            }
            None
        })
    }

    /// Package, receiver and method, without the import path.
    pub fn short(&self) -> &str {
        short(&self.function)
    }
}

/// A function without its import path. If the path ends in a version, the name before it is kept.
pub fn short(function: &str) -> &str {
    // An import path has no parenthesis or bracket, but type arguments in brackets may contain slashes.
    let path = function.find(['(', '[']).and_then(|end| function.get(..end)).unwrap_or(function);
    let Some(slash) = path.rfind('/') else { return function };
    let last = function.get(slash + 1..).unwrap_or(function);
    let versioned = last
        .strip_prefix('v')
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    if !versioned {
        return last;
    }
    let before = path.get(..slash).and_then(|rest| rest.rfind('/')).map_or(0, |at| at + 1);
    function.get(before..).unwrap_or(function)
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traces => "traces",
            Self::Crash => "crash",
            Self::Profile => "profile",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_says_the_place() {
        assert_eq!(short("github.com/containerd/ttrpc.(*Client).dispatch"), "ttrpc.(*Client).dispatch");
        assert_eq!(
            short("github.com/containerd/containerd/v2/core/runtime/v2.(*shimTask).Update"),
            "runtime/v2.(*shimTask).Update"
        );
        assert_eq!(short("main.main"), "main.main");
        assert_eq!(short("a/b/eventq.(*Queue[x/y.Z]).Send"), "eventq.(*Queue[x/y.Z]).Send");
    }

    #[test]
    fn a_method_of_a_pointer_has_a_receiver() {
        let frame = |function: &str| Frame {
            function: function.into(),
            arguments: Box::new([Token::Word { bits: 7, certain: true }]),
            inlined: false,
            place: None,
        };
        assert_eq!(frame("go.etcd.io/bbolt.(*DB).Begin").receiver_type(), Some("go.etcd.io/bbolt.(*DB)"));
        assert_eq!(frame("go.etcd.io/bbolt.(*DB).Begin").receiver(), Some((7, true)));
        assert_eq!(frame("main.f").receiver(), None);
    }
}
