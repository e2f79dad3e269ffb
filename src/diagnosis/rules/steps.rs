//! What to do, from the table `steps.txt` and the texts of the rules: the caller names a block and what its places stand for.

use std::fmt::Display;
use std::iter;

use super::catalogue;
use crate::diagnosis::advice::DaemonFamily;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::proc::Process;
use crate::report::{Command, Step, split_at_place};

/// The steps that more than one rule suggests, or that depend on what a rule found.
const TABLE: &str = include_str!("steps.txt");

/// What a place of a step stands for.
#[derive(Clone, Debug)]
pub enum Place {
    /// Words, which a command quotes where a shell needs it.
    Words(Vec<String>),
    /// The id of a process or of a task.
    Process(u32),
    /// Options of plegctl's own.
    Options(Vec<&'static str>),
}

/// Places with their names.
pub type Places<'a> = &'a [(&'static str, Place)];

impl Place {
    /// Returns the place of one word.
    pub fn word(word: impl Display) -> Self {
        Self::words([word])
    }

    /// Returns the place of several words.
    pub fn words<T: Display>(words: impl IntoIterator<Item = T>) -> Self {
        Self::Words(words.into_iter().map(|word| word.to_string()).collect())
    }

    fn text(&self) -> String {
        match self {
            Self::Words(words) => words.join(" "),
            Self::Process(pid) => pid.to_string(),
            Self::Options(options) => options.join(" "),
        }
    }

    fn fill(&self, command: Command) -> Command {
        match self {
            Self::Words(words) => command.args(words),
            Self::Process(pid) => command.pid(*pid),
            Self::Options(options) => command.options(options.iter().copied()),
        }
    }
}

/// Returns the name and the id of a process.
pub fn of_process(process: &Process) -> [(&'static str, Place); 2] {
    [("name", Place::word(&process.comm)), ("pid", Place::Process(process.pid))]
}

/// One step of a table: a line `KEY: TEXT`, and behind ` => ` the command.
#[derive(Clone, Copy, Debug)]
pub struct TableStep {
    /// `look`, `change` or `signal`; `keep` for what comes before all others.
    pub key: &'static str,
    /// The word behind a dot behind the key: when the step applies, or what else it needs.
    pub tag: &'static str,
    text: &'static str,
    command: &'static str,
}

impl TableStep {
    /// Reads a line; `None` if it is no step.
    pub fn read(line: &'static str) -> Option<Self> {
        let (key, rest) = line.split_once(": ")?;
        let (key, tag) = key.split_once('.').unwrap_or((key, ""));
        let (text, command) = rest.split_once(" => ").unwrap_or((rest, ""));
        ["look", "change", "signal", "keep"].contains(&key).then_some(Self { key, tag, text, command })
    }

    /// Returns the step. With a place that is not known, nobody can run its command, so this is a part of the text.
    pub fn filled(self, places: Places<'_>) -> Step {
        let text = filled_text(self.text, places);
        match filled_command(self.command, places) {
            _ if self.command.is_empty() => self.step(text),
            Some(command) => self.step(text).with(command),
            None => self.step(format!("{text}: {}", filled_text(self.command, places))),
        }
    }

    /// Returns the step with another command.
    pub fn with(self, command: Command) -> Step {
        self.step(self.text.to_owned()).with(command)
    }

    fn step(self, text: String) -> Step {
        match self.key {
            "change" => Step::change(text),
            "signal" => Step::signal(text),
            _ => Step::look(text),
        }
    }
}

fn known<'a>(places: Places<'a>, name: &str) -> Option<&'a Place> {
    places.iter().find(|(known, _)| *known == name).map(|(_, place)| place)
}

/// Fills the places of a text. One that is not known has its name in upper case.
fn filled_text(text: &str, places: Places<'_>) -> String {
    let Some((before, name, after)) = split_at_place(text) else { return text.to_owned() };
    let words = known(places, name).map_or_else(|| name.to_uppercase(), Place::text);
    format!("{before}{words}{}", filled_text(after, places))
}

/// Fills the places of a command; `None` if one is not known. A number in the first place is the limit in seconds.
fn filled_command(template: &'static str, places: Places<'_>) -> Option<Command> {
    let mut command = Command::new(template);
    if let Some(seconds) = command.next_place().and_then(|name| name.parse().ok()) {
        command = Command::limited(seconds, template);
    }
    while let Some(name) = command.next_place() {
        command = known(places, name)?.fill(command);
    }
    Some(command)
}

/// Returns the blocks of the table, and those of the rules' texts.
fn blocks() -> impl Iterator<Item = &'static str> {
    iter::once(TABLE).chain(catalogue().map(|row| row.texts)).flat_map(|text| text.split("\n\n"))
}

/// Returns the rows for an id.
fn rows(id: &str) -> impl Iterator<Item = TableStep> {
    let is_for_id = move |block: &&str| {
        let ids = block.strip_prefix('[').and_then(|block| block.split(']').next());
        ids.is_some_and(|ids| ids.split(' ').any(|word| word == id))
    };
    blocks().filter(is_for_id).flat_map(str::lines).filter_map(TableStep::read)
}

/// Returns the steps for an id.
pub fn steps_of(id: &str, places: Places<'_>) -> Vec<Step> {
    rows(id).map(|row| row.filled(places)).collect()
}

impl Evidence {
    /// Returns the steps for an id that apply to this node. Its name, the runtime's units and their journal are known places.
    pub fn steps(&self, id: &str, places: Places<'_>) -> Vec<Step> {
        let units = self.runtime_units();
        let of_node = [
            ("node", Place::word(self.node_or_placeholder())),
            ("units", Place::words(units)),
            ("journal", Place::Options(units.iter().flat_map(|unit| ["-u", unit]).collect())),
            ("cni", Place::word(self.cni_directory())),
        ];
        let places = [places, &of_node].concat();
        let (has_systemd, is_crio) = (self.has_systemd(), self.family() == DaemonFamily::Crio);
        let applies = |row: &TableStep| match row.tag {
            "systemd" => has_systemd,
            "noSystemd" => !has_systemd,
            "crio" => is_crio,
            "notCrio" => !is_crio,
            _ => true,
        };
        rows(id).filter(applies).map(|row| row.filled(&places)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::diagnosis::forecast::LimitKind;

    #[test]
    fn every_limit_has_steps_and_every_line_of_the_table_is_a_step_or_begins_a_block() {
        for limit in LimitKind::ALL {
            assert!(!steps_of(limit.as_str(), &[]).is_empty(), "{limit}");
        }
        let is_text = |line: &&str| {
            let keys = ["[", "#", "means: ", "shows: ", "confirm: ", "never: ", "next: "];
            line.is_empty() || keys.iter().any(|key| line.starts_with(key))
        };
        for row in blocks().flat_map(str::lines).filter(|line| !is_text(line)) {
            let read = TableStep::read(row).unwrap_or_else(|| panic!("{row}"));
            assert!(["", "systemd", "noSystemd", "crio", "notCrio"].contains(&read.tag), "{row}");
        }
    }

    /// Adds the texts of the source files below this folder.
    fn read_code(folder: &std::path::Path, texts: &mut Vec<String>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                read_code(&path, texts);
            } else if path.extension().is_some_and(|end| end == "rs") {
                texts.push(std::fs::read_to_string(&path).unwrap());
            }
        }
    }

    #[test]
    fn the_code_and_the_table_name_the_same_blocks() {
        let mut texts = Vec::new();
        read_code(concat!(env!("CARGO_MANIFEST_DIR"), "/../../src/diagnosis").as_ref(), &mut texts);
        let quoted: BTreeSet<&str> = texts.iter().flat_map(|text| text.split('"')).collect();
        for block in blocks().filter_map(|block| block.strip_prefix('[')?.split(']').next()) {
            assert!(block.split(' ').all(|id| quoted.contains(id)), "no code names [{block}]");
        }
        let called = |call| texts.iter().flat_map(move |text| text.split(call).skip(1));
        for id in called("steps_of(\"").chain(called(".steps(\"")).filter_map(|call| call.split('"').next()) {
            assert!(rows(id).next().is_some(), "the table has no [{id}]");
        }
    }

    #[test]
    fn a_command_with_a_place_that_is_not_known_is_a_part_of_the_text() {
        let line = "change: end {name} => timeout {10} kill {pid}";
        let row = TableStep::read(line).unwrap();
        let all = [("name", Place::word("runc")), ("pid", Place::Process(7))];
        let known = row.filled(&all);
        assert_eq!(known.to_string(), "end runc (changes state): timeout 10 kill 7");
        assert_eq!((known.time_limit_seconds, known.names_process), (Some(10), true));
        assert_eq!(row.filled(&[]).to_string(), "end NAME: timeout 10 kill PID (changes state)");
    }
}
