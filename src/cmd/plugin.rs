//! plegctl as a plugin of kubectl. `kubectl plegctl …` starts the program `kubectl-plegctl`, and kubectl's completion starts
//! `kubectl_complete-plegctl`; both are links to plegctl.
//!
//! ```text
//! $ ln -s plegctl /usr/local/bin/kubectl-plegctl
//! $ kubectl plegctl nodes --context prod
//! ```

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap_complete::engine::{CompletionCandidate, complete};

use super::term::streams;

/// The name with which kubectl starts a plugin.
const PLUGIN: &str = "kubectl-plegctl";

/// The name with which kubectl completes the plugin's command line.
const COMPLETION: &str = "kubectl_complete-plegctl";

/// The last line of a completion, as cobra's `ShellCompDirective`: let the shell complete files.
const FILES: u8 = 0;

/// No space after the candidate.
const NO_SPACE: u8 = 2;

/// No files in addition to the candidates.
const NO_FILES: u8 = 4;

/// The name under which plegctl was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartedAs {
    Plegctl,
    Plugin,
    Completion,
}

impl StartedAs {
    /// Returns the name in the first argument of a process.
    pub fn from_program(program: Option<&OsString>) -> Self {
        let name = program.map(Path::new).and_then(Path::file_name).unwrap_or_default();
        match name.to_str() {
            Some(PLUGIN) => Self::Plugin,
            Some(COMPLETION) => Self::Completion,
            _ => Self::Plegctl,
        }
    }

    /// Returns the name of this process.
    pub fn current() -> Self {
        Self::from_program(env::args_os().next().as_ref())
    }
}

/// Prints the candidates for the last of `words` in the format of cobra, which kubectl uses: one candidate in each line, a tab
/// and its description; then a directive.
pub fn print_candidates(mut command: clap::Command, words: Vec<OsString>) -> io::Result<()> {
    let last = words.len().saturating_sub(1);
    let directory = env::current_dir().ok();
    let candidates = complete(&mut command, words, last, directory.as_deref())?;
    streams::document(|out| out.write_all(listed(&candidates).as_bytes()))
}

/// Formats candidates as cobra does.
fn listed(candidates: &[CompletionCandidate]) -> String {
    let mut lines = String::new();
    let mut directive = if candidates.is_empty() { FILES } else { NO_FILES };
    for candidate in candidates {
        let value = candidate.get_value().to_string_lossy();
        if value.ends_with(['/', ':', '=']) {
            directive |= NO_SPACE;
        }
        lines += &value;
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some(first) = help.lines().next().filter(|line| !line.is_empty()) {
            lines.extend(["\t", first]);
        }
        lines.push('\n');
    }
    lines + &format!(":{directive}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_name_decides() {
        for (program, expected) in [
            ("/root/.krew/bin/kubectl-plegctl", StartedAs::Plugin),
            ("kubectl_complete-plegctl", StartedAs::Completion),
            ("/opt/kubectl-plegctl/plegctl", StartedAs::Plegctl),
            ("/proc/self/exe", StartedAs::Plegctl),
            ("", StartedAs::Plegctl),
        ] {
            assert_eq!(StartedAs::from_program(Some(&program.into())), expected, "{program}");
        }
        assert_eq!(StartedAs::from_program(None), StartedAs::Plegctl);
    }

    #[test]
    fn a_list_ends_with_cobras_directive() {
        let one = |text: &str| CompletionCandidate::new(text.to_owned());
        assert_eq!(listed(&[]), ":0\n");
        let described = one("health").help(Some("What blocks PLEG.\n\nMore.".into()));
        assert_eq!(listed(&[described, one("nodes")]), "health\tWhat blocks PLEG.\nnodes\n:4\n");
        assert_eq!(listed(&[one("/var/")]), "/var/\n:6\n");
    }
}
