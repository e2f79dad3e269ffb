//! Assembles the lines of dumps into goroutines and dumps. It recognises where a dump ends and the next begins, and
//! counts the lines that it cannot parse.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::super::dump::{ArgumentToken, Creator, Dump, Form, Frame, Goroutine, Name};
use super::line;
use super::unwrap::{BEGIN, END};

/// The largest number of dumps from one source; later goroutines go into the last dump.
const MAX_DUMPS: usize = 64;

/// The number of entries in the cache of recent names, which saves lookups in the map of all names.
const CACHE_SIZE: usize = 1 << 11;

/// The most frames for which memory is reserved. The Go runtime prints a hundred frames and leaves out the rest.
const MAX_RESERVED_FRAMES: usize = 101;

/// Receives lines and returns dumps.
#[derive(Default)]
pub struct Parser {
    /// The complete dumps.
    done: Vec<Dump>,
    /// The current dump.
    dump: Option<Dump>,
    /// The current goroutine, which is not yet in the current dump.
    goroutine: Option<Goroutine>,
    /// What the next position line (`\tfile.go:123`) belongs to.
    position_of: PositionOf,
    /// Whether the current lines are the stack of the ancestor that started the current goroutine.
    in_ancestor: bool,
    /// Whether a line such as `panic:` or `SIGQUIT: quit` came before, so that the next goroutines are a crash dump.
    crash: bool,
    /// The ids of the goroutines in the current dump. An id that occurs again begins another dump.
    seen: HashSet<u64>,
    /// All names so far, so that equal names share their memory.
    names: HashMap<Box<str>, Name>,
    /// The cache of recent names. It helps because neighbouring goroutines often have the same frames.
    recent: Vec<Option<Name>>,
    /// The arguments of the current frame.
    arguments: Vec<ArgumentToken>,
    /// The number of frames of the last goroutine, for which memory is reserved in the next.
    last_frames: usize,
    /// The number of goroutines that may still be kept.
    remaining: usize,
    /// Whether a goroutine was not kept.
    limit_reached: bool,
}

/// What a position line belongs to.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum PositionOf {
    /// No position line is expected.
    #[default]
    Nothing,
    /// The last frame.
    Frame,
    /// A creator or an ancestor, whose positions are not kept.
    Ignored,
}

impl Parser {
    /// Creates a parser that keeps at most `max_goroutines` goroutines.
    pub fn new(max_goroutines: usize) -> Self {
        Self { recent: vec![None; CACHE_SIZE], remaining: max_goroutines, ..Self::default() }
    }

    /// Sets the time of the current dump. Without a current dump, it sets the time of the last complete dump.
    pub fn set_time(&mut self, time: String) {
        let dump = match self.dump.as_mut() {
            Some(dump) => Some(dump),
            None => self.done.last_mut(),
        };
        if let Some(dump) = dump {
            dump.taken_at.get_or_insert(time);
        }
    }

    /// Returns the dumps, and whether the lines had more goroutines than the limit.
    pub fn finish(mut self) -> (Vec<Dump>, bool) {
        self.end_dump();
        self.done.extend(self.dump.take().filter(|dump| dump.announced > 0 || !dump.goroutines.is_empty()));
        (self.done, self.limit_reached)
    }

    /// Parses one line.
    pub fn feed(&mut self, text: &str) {
        let text = text.trim_end();
        // A journal indents the later lines of a message with spaces.
        let line = text.trim_start_matches(' ');
        if line.is_empty() {
            self.end_goroutine();
        } else if let Some(id) = line::header_id(line) {
            self.header(id, line);
        } else if let Some(total) = line.strip_prefix("goroutine profile: total ") {
            self.end_dump();
            let announced = total.trim().parse().unwrap_or(0);
            if self.dump.is_some() {
                self.count_unparsed();
                return;
            }
            self.dump = Some(Dump { form: Form::Profile, announced, ..Dump::default() });
        } else if line == BEGIN || line == END {
            self.end_dump();
        } else if ["SIGQUIT: quit", "fatal error: ", "panic: ", "SIGABRT: abort"]
            .iter()
            .any(|mark| line.starts_with(mark))
        {
            self.end_dump();
            self.crash = true;
        } else if self.dump.as_ref().is_some_and(|dump| dump.form == Form::Profile) {
            self.profile(line);
        } else if self.goroutine.is_some() {
            self.inside(line);
        } else if self.dump.is_some()
            && (line.starts_with('\t') || line::frame(line, &mut self.arguments).is_some())
        {
            self.count_unparsed();
        }
    }

    /// Begins a goroutine, and before it another dump if the header cannot belong to the current dump.
    fn header(&mut self, id: u64, text: &str) {
        self.end_goroutine();
        let found = line::header(text);
        let crash = self.crash || found.as_ref().is_some_and(|header| header.crash);
        let form = if crash { Form::Crash } else { Form::Traces };
        let again = self.seen.contains(&id);
        let other_form = self.dump.as_ref().is_some_and(|dump| dump.form != form);
        if other_form || (again && !crash) {
            self.end_dump();
            // `end_dump` resets the mark of a crash, but the mark belongs to the dump that begins here.
            self.crash = crash;
        }
        self.seen.insert(id);
        let is_parsed = found.is_some();
        let header = found.unwrap_or_default();
        let state = self.name(header.state);
        let dump = self.dump.get_or_insert_with(|| Dump { form, ..Dump::default() });
        dump.announced += 1;
        if !is_parsed {
            dump.not_understood += 1;
        }
        if self.remaining == 0 {
            self.limit_reached = true;
            return;
        }
        self.remaining -= 1;
        self.goroutine = Some(Goroutine {
            id: Some(id),
            count: 1,
            state,
            minutes: header.minutes,
            frames: Vec::with_capacity(self.last_frames),
            ..Goroutine::default()
        });
    }

    /// Parses a line below a header.
    fn inside(&mut self, text: &str) {
        if let Some((function, goroutine)) = line::created_by(text) {
            let function = self.name(function);
            self.position_of = PositionOf::Ignored;
            if let Some(current) = self.goroutine.as_mut().filter(|_| !self.in_ancestor) {
                current.created_by = Some(Creator { function, goroutine });
            }
        } else if text.starts_with("[originating from goroutine ") && text.ends_with("]:") {
            self.in_ancestor = true;
            self.position_of = PositionOf::Nothing;
        } else if let Some(count) = line::elided(text) {
            if let Some(goroutine) = self.goroutine.as_mut() {
                goroutine.elided += count;
            }
        } else if text.trim_start().ends_with("stack unavailable") {
            if let Some(goroutine) = self.goroutine.as_mut() {
                goroutine.unavailable = true;
            }
        } else if self.position_of != PositionOf::Nothing
            && let Some((file, number)) = line::position(text)
        {
            let file = self.name(file);
            if self.position_of == PositionOf::Frame
                && let Some(frame) = self.goroutine.as_mut().and_then(|goroutine| goroutine.frames.last_mut())
            {
                frame.place = Some((file, number));
            }
            self.position_of = PositionOf::Nothing;
        } else if let Some(function) = line::frame(text, &mut self.arguments) {
            let function = self.name(function);
            self.position_of = if self.in_ancestor { PositionOf::Ignored } else { PositionOf::Frame };
            if let Some(goroutine) = self.goroutine.as_mut().filter(|_| !self.in_ancestor) {
                let arguments = self.arguments.as_slice().into();
                goroutine.frames.push(Frame { function, arguments, place: None });
            }
        } else {
            self.count_unparsed();
        }
    }

    /// Parses a line of a profile.
    fn profile(&mut self, text: &str) {
        if let Some(count) = line::profile_count(text) {
            self.end_goroutine();
            if self.remaining == 0 {
                self.limit_reached = true;
                return;
            }
            self.remaining -= 1;
            self.goroutine = Some(Goroutine { count, ..Goroutine::default() });
        } else if let Some((function, place)) = line::profile_frame(text) {
            let function = self.name(function);
            let place = place.map(|(file, number)| (self.name(file), number));
            match self.goroutine.as_mut() {
                Some(goroutine) => {
                    goroutine.frames.push(Frame { function, arguments: Box::default(), place });
                }
                None => self.count_unparsed(),
            }
        } else if text.starts_with("# labels:") || text.starts_with("#\t0x") {
            // A line with labels, or a frame whose function is not known, needs no action.
        } else {
            self.count_unparsed();
        }
    }

    /// Counts a line that could not be parsed.
    fn count_unparsed(&mut self) {
        if let Some(dump) = self.dump.as_mut() {
            dump.not_understood += 1;
        }
    }

    /// Returns the shared name for a text.
    fn name(&mut self, text: &str) -> Name {
        let index = cache_index(text);
        if let Some(Some(name)) = self.recent.get(index)
            && **name == *text
        {
            return Name::clone(name);
        }
        let name = if let Some(name) = self.names.get(text) {
            Name::clone(name)
        } else {
            let name = Name::from(text);
            self.names.insert(text.into(), Name::clone(&name));
            name
        };
        if let Some(recent) = self.recent.get_mut(index) {
            *recent = Some(Name::clone(&name));
        }
        name
    }

    /// Adds the current goroutine to the current dump.
    fn end_goroutine(&mut self) {
        self.position_of = PositionOf::Nothing;
        self.in_ancestor = false;
        let Some(goroutine) = self.goroutine.take() else { return };
        self.last_frames = goroutine.frames.len().min(MAX_RESERVED_FRAMES);
        if wrote_the_dump(&goroutine)
            && let Some(dump) =
                self.dump.as_mut().filter(|dump| dump.form == Form::Traces && !dump.goroutines.is_empty())
        {
            // The goroutine that writes a dump is the first in it, so another dump began with its header.
            dump.announced -= 1;
            self.end_dump();
            self.seen.extend(goroutine.id);
            self.dump.get_or_insert_with(Dump::default).announced += 1;
        }
        if let Some(dump) = self.dump.as_mut() {
            dump.goroutines.push(goroutine);
        }
    }

    /// Completes the current dump.
    fn end_dump(&mut self) {
        self.end_goroutine();
        if self.done.len() + 1 >= MAX_DUMPS {
            return;
        }
        self.seen.clear();
        self.crash = false;
        if let Some(dump) = mem::take(&mut self.dump)
            && (dump.announced > 0 || !dump.goroutines.is_empty())
        {
            self.done.push(dump);
        }
    }
}

/// Returns the index of a name in the cache: a hash of its length and its last eight bytes, because names of one package
/// differ at their ends.
fn cache_index(text: &str) -> usize {
    let end = text.as_bytes().last_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
    let mixed = (end ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 53).unwrap_or(0)
}

/// Returns whether a goroutine wrote the dump that contains it.
fn wrote_the_dump(goroutine: &Goroutine) -> bool {
    const WRITERS: [&str; 4] =
        ["dumpStacks", "pprof.writeGoroutineStacks", "runtime/debug.Stack", "WriteGoroutineStacks"];
    &*goroutine.state == "running"
        && goroutine
            .frames
            .iter()
            .take(4)
            .any(|frame| WRITERS.iter().any(|writer| frame.function.contains(writer)))
}
