//! The types of a parsed goroutine dump: goroutines with their states, frames and arguments.
//!
//! `read` creates them; `wait`, `holders` and `judge` examine them.

use std::sync::Arc;
use std::time::Duration;

use plegctl_base::report::word_enum;

/// The name of a function, a file or a state. Equal names in one source share their memory.
pub type Name = Arc<str>;

word_enum! {
    /// The format in which a dump was written.
    #[derive(Default)]
    pub enum Form: words {
        /// One goroutine after another, with states and arguments, as `debug=2` and SIGUSR1 write them.
        #[default]
        Traces = "traces",
        /// The format that the Go runtime writes when it ends a process after SIGQUIT or a panic.
        Crash = "crash",
        /// Equal stacks with their counts, as `debug=1` writes them. It has no ids, states, ages or arguments.
        Profile = "profile",
    }
}

/// One dump of one process.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// The format in which the dump was written.
    pub form: Form,
    /// All goroutines, in the dump's order.
    pub goroutines: Vec<Goroutine>,
    /// The number of goroutines that the dump announces: its headers, or the total that a profile states.
    pub announced: u64,
    /// The number of headers and lines in the dump that could not be parsed.
    pub not_understood: u64,
    /// The time at which the dump was taken, if the log that contains the dump states a time.
    pub taken_at: Option<String>,
}

impl Dump {
    /// Returns the number of goroutines in the dump.
    pub fn count(&self) -> u64 {
        self.goroutines.iter().map(|goroutine| goroutine.count).sum()
    }
}

/// One goroutine, or, in a profile, all goroutines with the same stack.
#[derive(Clone, Debug, Default)]
pub struct Goroutine {
    /// The goroutine's id; `None` in a profile.
    pub id: Option<u64>,
    /// The number of goroutines with this stack; always 1 except in a profile.
    pub count: u64,
    /// The state in the Go runtime's words: `select`, `sync.Mutex.Lock`. Empty in a profile.
    pub state: Name,
    /// The age of the wait as the Go runtime writes it, in whole minutes: an estimate, see `wait_time`.
    pub minutes: Option<u32>,
    /// The age of the child process for which the goroutine waits, if that process is known.
    pub child_age: Option<Duration>,
    /// The frames, innermost first.
    pub frames: Vec<Frame>,
    /// The `go` statement that started the goroutine.
    pub created_by: Option<Creator>,
    /// The number of frames that the Go runtime left out.
    pub elided: u64,
    /// Whether the Go runtime could not read the stack.
    pub unavailable: bool,
}

/// The `go` statement that started a goroutine.
#[derive(Clone, Debug)]
pub struct Creator {
    /// The function that contains the statement.
    pub function: Name,
    /// The id of the goroutine that executed the statement; written since Go 1.21.
    pub goroutine: Option<u64>,
}

/// One frame: a function call on a goroutine's stack.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The function with its import path and receiver: `go.etcd.io/bbolt.(*DB).Begin`.
    pub function: Name,
    /// The arguments as the Go runtime prints them, split into tokens.
    pub arguments: Box<[ArgumentToken]>,
    /// The source file and the line number.
    pub place: Option<(Name, u32)>,
}

/// One token of a frame's argument list, such as `{`, `0xc000010`, `_` or `...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentToken {
    /// `{`: the start of a structure, string, slice or interface.
    Open,
    /// `}`: the end of a structure, string, slice or interface.
    Close,
    /// `0x1`: one machine word.
    Word {
        /// The value.
        bits: u64,
        /// False if the Go runtime marks the value as possibly outdated with `?`.
        certain: bool,
    },
    /// `_`: a word with an unknown value.
    Hidden,
    /// `...`: arguments that the Go runtime left out.
    More,
}

impl Frame {
    /// Returns the receiver's type with its package, if the function is a method of a pointer: `path/bbolt.(*DB)`.
    pub fn receiver_type(&self) -> Option<&str> {
        let start = self.function.find(".(*")?;
        let end = self.function.get(start..)?.find(')')?;
        self.function.get(..=start + end)
    }

    /// Returns the first argument, if it is a word, and whether its value is certain.
    pub fn first_word(&self) -> Option<(u64, bool)> {
        match self.arguments.first() {
            Some(ArgumentToken::Word { bits, certain }) => Some((*bits, *certain)),
            _ => None,
        }
    }

    /// Returns the receiver's address, if the function is a method of a pointer and the address is known, and whether
    /// the address is certain.
    pub fn receiver(&self) -> Option<(u64, bool)> {
        self.receiver_type()?;
        self.first_word()
    }

    /// Returns the values of all words, each with whether it is certain.
    pub fn words(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.arguments.iter().filter_map(|token| match token {
            ArgumentToken::Word { bits, certain } => Some((*bits, *certain)),
            _ => None,
        })
    }

    /// Returns the words that are whole arguments, not parts of a structure, string, slice or interface, each with
    /// whether it is certain.
    pub fn outer_words(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        let mut depth = 0_usize;
        self.arguments.iter().filter_map(move |token| {
            match token {
                ArgumentToken::Open => depth += 1,
                ArgumentToken::Close => depth = depth.saturating_sub(1),
                ArgumentToken::Word { bits, certain } if depth == 0 => return Some((*bits, *certain)),
                ArgumentToken::Word { .. } | ArgumentToken::Hidden | ArgumentToken::More => {}
            }
            None
        })
    }

    /// Returns the function without its import path: package, receiver and method.
    pub fn short(&self) -> &str {
        short(&self.function)
    }
}

/// Returns a function without its import path. If the path ends in a version such as `v2`, the name before the version
/// is kept.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_has_package_receiver_and_method() {
        assert_eq!(short("github.com/containerd/ttrpc.(*Client).dispatch"), "ttrpc.(*Client).dispatch");
        assert_eq!(
            short("github.com/containerd/containerd/v2/core/runtime/v2.(*shimTask).Update"),
            "runtime/v2.(*shimTask).Update"
        );
        assert_eq!(short("main.main"), "main.main");
        assert_eq!(short("a/b/eventq.(*Queue[x/y.Z]).Send"), "eventq.(*Queue[x/y.Z]).Send");
    }

    #[test]
    fn only_a_method_of_a_pointer_has_a_receiver() {
        let frame = |function: &str| Frame {
            function: function.into(),
            arguments: Box::new([ArgumentToken::Word { bits: 7, certain: true }]),
            place: None,
        };
        assert_eq!(frame("go.etcd.io/bbolt.(*DB).Begin").receiver_type(), Some("go.etcd.io/bbolt.(*DB)"));
        assert_eq!(frame("go.etcd.io/bbolt.(*DB).Begin").receiver(), Some((7, true)));
        assert_eq!(frame("main.f").receiver(), None);
    }
}
