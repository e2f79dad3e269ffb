//! Assembles lines into goroutines and dumps.

use std::collections::{HashMap, HashSet};
use std::mem;

use super::super::dump::{Creator, Dump, Form, Frame, Goroutine, Name, Token};
use super::line;
use super::unwrap::{BEGIN, END};

/// The largest number of dumps from one source; later goroutines go into the last dump.
const MOST_DUMPS: usize = 64;

/// The number of entries in the cache of recent names, which saves lookups in the map of all names.
const RECENT: usize = 1 << 11;

/// The Go runtime prints a hundred frames and leaves out the rest.
const MOST_FRAMES: usize = 101;

/// Receives lines and returns dumps.
pub struct Parser {
    done: Vec<Dump>,
    dump: Option<Dump>,
    goroutine: Option<Goroutine>,
    /// What the next position line (`\tfile.go:123`) belongs to.
    expects: Expects,
    /// Whether the current frames belong to the goroutine that started the current one.
    ancestor: bool,
    /// Whether a line such as `panic:` or `SIGQUIT: quit` came before, so that the next goroutines are a crash dump.
    crash: bool,
    seen: HashSet<u64>,
    names: HashMap<Box<str>, Name>,
    /// The cache of recent names. It helps because neighbouring goroutines often have the same frames.
    recent: Vec<Option<Name>>,
    /// Arguments of the current frame.
    words: Vec<Token>,
    /// How many frames the last goroutine had; the next goroutine often has as many.
    depth: usize,
    room: usize,
    full: bool,
}

/// What a position line can belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Nothing,
    Frame,
    Elsewhere,
}

impl Parser {
    /// Keeps at most `room` goroutines.
    pub fn new(room: usize) -> Self {
        Self {
            done: Vec::new(),
            dump: None,
            goroutine: None,
            expects: Expects::Nothing,
            ancestor: false,
            crash: false,
            seen: HashSet::new(),
            names: HashMap::new(),
            recent: vec![None; RECENT],
            words: Vec::new(),
            depth: 0,
            room,
            full: false,
        }
    }

    /// Sets the time of the current dump, or of the last complete one if there is none.
    pub fn stamp(&mut self, when: String) {
        let dump = match self.dump.as_mut() {
            Some(dump) => Some(dump),
            None => self.done.last_mut(),
        };
        if let Some(dump) = dump {
            dump.taken_at.get_or_insert(when);
        }
    }

    /// Returns the dumps, and whether there were more goroutines than `room`.
    pub fn finish(mut self) -> (Vec<Dump>, bool) {
        self.end_dump();
        self.done.extend(self.dump.take().filter(|dump| dump.announced > 0 || !dump.goroutines.is_empty()));
        (self.done, self.full)
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
                self.puzzled();
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
            && (line.starts_with('\t') || line::frame(line, &mut self.words).is_some())
        {
            self.puzzled();
        }
    }

    fn header(&mut self, id: u64, text: &str) {
        self.end_goroutine();
        let found = line::header(text);
        let crash = self.crash || found.as_ref().is_some_and(|header| header.crash);
        let form = if crash { Form::Crash } else { Form::Traces };
        let again = self.seen.contains(&id);
        let other_form = self.dump.as_ref().is_some_and(|dump| dump.form != form);
        if other_form || (again && !crash) {
            self.end_dump();
            // The end of a dump also ends what was announced before the dump.
            self.crash = crash;
        }
        self.seen.insert(id);
        let understood = found.is_some();
        let header = found.unwrap_or_default();
        let state = self.name(header.state);
        let dump = self.dump.get_or_insert_with(|| Dump { form, ..Dump::default() });
        dump.announced += 1;
        if !understood {
            dump.not_understood += 1;
        }
        if self.room == 0 {
            self.full = true;
            return;
        }
        self.room -= 1;
        self.goroutine = Some(Goroutine {
            id: Some(id),
            count: 1,
            state,
            minutes: header.minutes,
            locked_to_thread: header.locked_to_thread,
            labels: header.labels,
            frames: Vec::with_capacity(self.depth),
            ..Goroutine::default()
        });
    }

    /// Parses a line below a header.
    fn inside(&mut self, text: &str) {
        if let Some((function, goroutine)) = line::created_by(text) {
            let function = self.name(function);
            self.expects = Expects::Elsewhere;
            if let Some(at_hand) = self.goroutine.as_mut().filter(|_| !self.ancestor) {
                at_hand.created_by = Some(Creator { function, goroutine });
            }
        } else if text.starts_with("[originating from goroutine ") && text.ends_with("]:") {
            self.ancestor = true;
            self.expects = Expects::Nothing;
        } else if let Some(count) = line::elided(text) {
            if let Some(goroutine) = self.goroutine.as_mut() {
                goroutine.elided += count;
            }
        } else if text.trim_start().ends_with("stack unavailable") {
            if let Some(goroutine) = self.goroutine.as_mut() {
                goroutine.unavailable = true;
            }
        } else if self.expects != Expects::Nothing
            && let Some((file, number)) = line::position(text)
        {
            let file = self.name(file);
            if self.expects == Expects::Frame
                && let Some(frame) = self.goroutine.as_mut().and_then(|goroutine| goroutine.frames.last_mut())
            {
                frame.place = Some((file, number));
            }
            self.expects = Expects::Nothing;
        } else if let Some((function, known)) = line::frame(text, &mut self.words) {
            let function = self.name(function);
            self.expects = if self.ancestor { Expects::Elsewhere } else { Expects::Frame };
            if let Some(goroutine) = self.goroutine.as_mut().filter(|_| !self.ancestor) {
                let arguments = self.words.as_slice().into();
                goroutine.frames.push(Frame { function, arguments, inlined: !known, place: None });
            }
        } else {
            self.puzzled();
        }
    }

    /// Parses a line of a profile.
    fn profile(&mut self, text: &str) {
        if let Some(count) = line::group(text) {
            self.end_goroutine();
            if self.room == 0 {
                self.full = true;
                return;
            }
            self.room -= 1;
            self.goroutine = Some(Goroutine { count, ..Goroutine::default() });
        } else if let Some((function, place)) = line::group_frame(text) {
            let function = self.name(function);
            let place = place.map(|(file, number)| (self.name(file), number));
            match self.goroutine.as_mut() {
                Some(goroutine) => {
                    goroutine.frames.push(Frame {
                        function,
                        arguments: Box::default(),
                        inlined: false,
                        place,
                    });
                }
                None => self.puzzled(),
            }
        } else if text.starts_with("# labels:") || text.starts_with("#\t0x") {
            // These are labels of a group, or a frame whose function is not known.
        } else {
            self.puzzled();
        }
    }

    fn puzzled(&mut self) {
        if let Some(dump) = self.dump.as_mut() {
            dump.not_understood += 1;
        }
    }

    fn name(&mut self, text: &str) -> Name {
        let slot = slot(text);
        if let Some(Some(name)) = self.recent.get(slot)
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
        if let Some(recent) = self.recent.get_mut(slot) {
            *recent = Some(Name::clone(&name));
        }
        name
    }

    fn end_goroutine(&mut self) {
        self.expects = Expects::Nothing;
        self.ancestor = false;
        let Some(goroutine) = self.goroutine.take() else { return };
        self.depth = goroutine.frames.len().min(MOST_FRAMES);
        if writes_dumps(&goroutine)
            && let Some(dump) =
                self.dump.as_mut().filter(|dump| dump.form == Form::Traces && !dump.goroutines.is_empty())
        {
            // This goroutine is always the first of a dump, so its header has begun another dump.
            dump.announced -= 1;
            self.end_dump();
            self.seen.extend(goroutine.id);
            self.dump.get_or_insert_with(Dump::default).announced += 1;
        }
        if let Some(dump) = self.dump.as_mut() {
            dump.goroutines.push(goroutine);
        }
    }

    fn end_dump(&mut self) {
        self.end_goroutine();
        if self.done.len() + 1 >= MOST_DUMPS {
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

/// The index of a name in the cache. Names of a package differ in their ends.
fn slot(text: &str) -> usize {
    let end = text.as_bytes().last_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
    let mixed = (end ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 53).unwrap_or(0)
}

/// Whether this goroutine wrote the dump that contains it.
fn writes_dumps(goroutine: &Goroutine) -> bool {
    const WRITERS: [&str; 4] =
        ["dumpStacks", "pprof.writeGoroutineStacks", "runtime/debug.Stack", "WriteGoroutineStacks"];
    &*goroutine.state == "running"
        && goroutine
            .frames
            .iter()
            .take(4)
            .any(|frame| WRITERS.iter().any(|writer| frame.function.contains(writer)))
}
