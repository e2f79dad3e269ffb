//! [`Step`]: one thing that a report suggests, with its command and with what it does to the node. A step is data: whether it
//! changes the state, whether it names a process and what its command is are fields, and no code reads them from its text.

use std::fmt::{self, Display};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::escape::{is_hostile, shell_word};

/// A suggested step.
#[crate::report::document_part]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What the step is for; without a command, what to do.
    pub purpose: String,
    /// The command, one line for a shell.
    pub command: Option<String>,
    /// Whether the step changes the state of the node or of the cluster. A step without this flag only reads.
    pub changes_state: bool,
    /// Whether the change is only a signal by which a process writes its goroutine stacks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_signals: bool,
    /// The time after which the command ends by itself; absent if it has no such limit.
    pub time_limit_seconds: Option<u64>,
    /// Whether the step names a process or a task by its id, which another process may have later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub names_process: bool,
}

impl Step {
    /// Creates a step that only reads.
    pub fn look(purpose: impl Into<String>) -> Self {
        Self {
            purpose: purpose.into(),
            command: None,
            changes_state: false,
            only_signals: false,
            time_limit_seconds: None,
            names_process: false,
        }
    }

    /// Creates a step that changes the state of the node or of the cluster.
    pub fn change(purpose: impl Into<String>) -> Self {
        Self { changes_state: true, ..Self::look(purpose) }
    }

    /// Creates a step in which a process gets the signal to write its goroutine stacks. It counts as a change, because another
    /// process would end by that signal.
    pub fn signal(purpose: impl Into<String>) -> Self {
        Self { only_signals: true, ..Self::change(purpose) }
    }

    /// Adds the command. Without it, if a word from outside would be a flag of the program, such as a pod with the name `--all`.
    #[must_use]
    pub fn with(self, command: Command) -> Self {
        if command.has_flag {
            return self;
        }
        Self {
            time_limit_seconds: command.limit.map(|limit| limit.as_secs()),
            names_process: self.names_process || command.names_process,
            command: Some(command.line()),
            ..self
        }
    }

    /// Marks a step whose text names a process by its id.
    #[must_use]
    pub fn about_process(self) -> Self {
        Self { names_process: true, ..self }
    }

    /// Returns the word that marks what the step does to the node; empty for a step that only reads.
    const fn mark(&self) -> &'static str {
        match (self.changes_state, self.only_signals) {
            (true, true) => " (sends a signal)",
            (true, false) => " (changes state)",
            (false, _) => "",
        }
    }

    /// Returns the text before the command: the purpose and the mark.
    pub fn text(&self) -> String {
        let colon = if self.command.is_some() { ":" } else { "" };
        format!("{}{}{colon}", self.purpose, self.mark())
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())?;
        self.command.iter().try_for_each(|command| write!(f, " {command}"))
    }
}

/// A command for a shell. Its template is a text of plegctl. Each `{}` or `{name}` in it is a place for words, which are quoted
/// where a shell needs it, so that no name from outside can become more than one word.
#[derive(Clone, Debug)]
pub struct Command {
    filled: String,
    rest: &'static str,
    limit: Option<Duration>,
    names_process: bool,
    /// Whether a word of a place begins with `-`, so that the program would take it for a flag.
    has_flag: bool,
}

impl Command {
    /// Creates a command.
    pub const fn new(template: &'static str) -> Self {
        Self { filled: String::new(), rest: template, limit: None, names_process: false, has_flag: false }
    }

    /// Creates a command that ends by itself after some seconds. The first place of the template is for this number.
    pub fn limited(seconds: u64, template: &'static str) -> Self {
        Self { limit: Some(Duration::from_secs(seconds)), ..Self::new(template).arg(seconds) }
    }

    /// Fills the next place with a word. Without a place left, appends the word.
    #[must_use]
    pub fn arg(self, word: impl Display) -> Self {
        self.args([word])
    }

    /// Fills the next place with the id of a process or of a task.
    #[must_use]
    pub fn pid(self, pid: u32) -> Self {
        Self { names_process: true, ..self.arg(pid) }
    }

    /// Fills the next place with several words. A program does the same for each of them, one after the other, so the limit is
    /// for each.
    #[must_use]
    pub fn args<T: Display>(self, words: impl IntoIterator<Item = T>) -> Self {
        let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
        let begins_word = split_at_place(self.rest).is_none_or(|(before, ..)| before.ends_with(' '));
        let count = u32::try_from(words.len().max(1)).unwrap_or(u32::MAX);
        let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        Self {
            limit: self.limit.map(|limit| limit.saturating_mul(count)),
            has_flag: self.has_flag || begins_word && words.iter().any(|word| word.starts_with('-')),
            ..self.fill(&quoted.join(" "))
        }
    }

    /// Fills the next place with options of plegctl's own.
    #[must_use]
    pub fn options(self, words: impl IntoIterator<Item = &'static str>) -> Self {
        self.fill(&words.into_iter().collect::<Vec<_>>().join(" "))
    }

    /// Fills the next place with several words, each after this flag.
    #[must_use]
    pub fn flagged(self, flag: &'static str, words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| format!("{flag} {}", quoted(word))).collect();
        self.fill(&words.join(" "))
    }

    /// Appends another command, which runs after this one.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        Self {
            // The sum of two limits is a limit of both.
            limit: self.limit.zip(next.limit).map(|(one, other)| one + other),
            names_process: self.names_process || next.names_process,
            has_flag: self.has_flag || next.has_flag,
            filled: format!("{}; {}", self.line(), next.line()),
            rest: "",
        }
    }

    fn fill(mut self, words: &str) -> Self {
        let (before, gap, after) = match split_at_place(self.rest) {
            Some((before, _, after)) => (before, "", after),
            None => (self.rest, " ", ""),
        };
        self.filled.extend([before, gap, words]);
        self.rest = after;
        self
    }

    /// Returns the name of the next place.
    pub fn next_place(&self) -> Option<&'static str> {
        split_at_place(self.rest).map(|(_, name, _)| name)
    }

    /// Returns the command as one line.
    pub fn line(mut self) -> String {
        self.filled.push_str(self.rest);
        self.filled
    }
}

/// Splits a text at its first place, `{}` or `{name}`. Returns what is before the place, its name, and what is after it.
pub fn split_at_place(text: &str) -> Option<(&str, &str, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (name, after) = text.get(at + 1..)?.split_once('}')?;
        let is_place = name.chars().all(|letter| letter.is_ascii_alphanumeric());
        is_place.then_some((text.get(..at)?, name, after))
    })
}

/// Quotes a word for a shell. A word with characters that a terminal does not show is written as octal numbers, so that the
/// command stays one line and can be copied from a screen. A line break at its end is lost.
fn quoted(word: &str) -> String {
    if !word.chars().any(is_hostile) {
        return shell_word(word);
    }
    let octal = |byte: u8| match byte {
        b'\'' | b'"' | b'\\' | b'%' | 0..=31 | 127.. => format!("\\{byte:03o}"),
        plain => char::from(plain).to_string(),
    };
    format!("\"$(printf '{}')\"", word.bytes().map(octal).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_outside_stays_one_word_of_the_command() {
        let hostile =
            ["a b", "$(reboot)", "`reboot`", "x; reboot", "it's", "a\nb", "100%\u{202e}'\\é", "~root", ""];
        for hostile in hostile {
            let line = Command::new("printf '<%s>' {} end").arg(hostile).line();
            #[expect(clippy::disallowed_methods, reason = "the test needs a shell")]
            let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(said, format!("<{hostile}><end>"), "{line}");
            assert!(!line.chars().any(is_hostile), "a terminal shows the whole command: {line}");
        }
    }

    #[test]
    fn a_name_that_a_program_would_take_for_a_flag_gives_no_command() {
        let delete = |name| Command::new("kubectl -n {} delete pod {}").arg("shop").arg(name);
        assert!(Step::change("end it").with(delete("web-0")).command.is_some());
        assert_eq!(Step::change("end it").with(delete("--all")).command, None);
        let appended = Command::new("crictl rm").args(["55f1fe6bb863", "-a"]);
        assert_eq!(Step::change("remove it").with(appended).command, None);
        let within = Command::new("cat /proc/{}/stack").arg("-1");
        assert!(Step::look("look").with(within).command.is_some(), "it is no word of its own");
    }

    #[test]
    fn a_command_has_its_words_its_limit_and_whether_it_names_a_process() {
        let remove = Command::limited(60, "crictl --timeout {}s rm").args(["55f1fe6bb863", "0a"]);
        let step = Step::change("remove them").with(remove.clone());
        assert_eq!(step.to_string(), "remove them (changes state): crictl --timeout 60s rm 55f1fe6bb863 0a");
        assert_eq!((step.time_limit_seconds, step.names_process), (Some(120), false), "60 s for each");
        let stack = Step::look("where it waits").with(Command::new("cat /proc/{}/stack").pid(7));
        assert_eq!(stack.to_string(), "where it waits: cat /proc/7/stack");
        assert_eq!((stack.time_limit_seconds, stack.names_process), (None, true));
        let both = Step::signal("both").with(remove.then(Command::new("kill -USR1 {}").pid(7)));
        assert_eq!(both.time_limit_seconds, None, "one of the two has no limit");
        assert!(
            both.names_process
                && both.changes_state
                && both.to_string().starts_with("both (sends a signal): ")
        );
    }

    #[test]
    fn the_document_says_whether_a_command_may_be_run() {
        let step = Step::change("thaw it").with(Command::new("echo 0 > {}").arg("/sys/fs/cgroup/a b"));
        let document = serde_json::json!({
            "purpose": "thaw it", "command": "echo 0 > '/sys/fs/cgroup/a b'", "changesState": true
        });
        assert_eq!(serde_json::to_value(&step).unwrap(), document);
        assert_eq!(serde_json::from_value::<Step>(document).unwrap(), step);
    }
}
