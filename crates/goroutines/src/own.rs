//! Parses signatures: those of a user's file (`plegctl stacks --signatures FILE`) and those of the catalogue
//! (`signatures.txt`). A wrong line is an error; no line is skipped silently.
//!
//! ```text
//! # frames from the caller to the innermost; `a|b` matches either, `^x` must be the innermost frame of the program
//! [X01] our admission hook does not answer
//! severity: warning
//! daemon: containerd
//! frames: RunPodSandbox > hook.(*Client).Ask > net/http.(*persistConn).roundTrip
//! waiters: RunPodSandbox > hook.(*Gate)
//! hangs: RunPodSandbox
//! next: look at the hook's log
//! thread: example/hook#7
//! ```

use super::daemon::Daemon;
use super::signatures::{Pattern, Signature};
use plegctl_base::report::Severity;

/// Why plegctl cannot use a file of signatures.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A line has a wrong format.
    #[error("line {line}: {what}")]
    Line {
        /// The line number.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A signature has no `frames:`.
    #[error("{id} has no `frames:`, so it would match nothing")]
    NoFrames {
        /// The signature's id.
        id: String,
    },
    /// The file has no signature.
    #[error("the file has no signature; a signature begins with `[ID] title`")]
    Empty,
}

/// Parses the signatures of a file.
pub fn parse(text: &str) -> Result<Vec<Signature>, Error> {
    let found = entries(text)?;
    if let Some(bare) = found.iter().find(|signature| signature.roots.is_empty()) {
        return Err(Error::NoFrames { id: bare.id.clone() });
    }
    if found.is_empty() { Err(Error::Empty) } else { Ok(found) }
}

/// Parses signatures that need no frames.
pub(super) fn entries(text: &str) -> Result<Vec<Signature>, Error> {
    let mut found: Vec<Signature> = Vec::new();
    for (at, raw) in text.lines().enumerate() {
        let line = raw.trim();
        let wrong = |what: String| Error::Line { line: at + 1, what };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (id, title) = rest
                .split_once(']')
                .map(|(id, title)| (id.trim(), title.trim()))
                .filter(|(id, title)| !id.is_empty() && !title.is_empty())
                .ok_or_else(|| wrong("a signature begins with `[ID] title`".to_owned()))?;
            if found.iter().any(|signature| signature.id == id) {
                return Err(wrong(format!("the id {id} occurs twice")));
            }
            found.push(empty(id, title));
            continue;
        }
        let (key, value) = line
            .split_once(':')
            .map(|(key, value)| (key.trim(), value.trim()))
            .ok_or_else(|| wrong(format!("`{line}` is neither `[ID] title` nor `key: value`")))?;
        let Some(signature) = found.last_mut() else {
            return Err(wrong(format!("`{key}:` comes before the first `[ID] title`")));
        };
        set(signature, key, value).map_err(wrong)?;
    }
    Ok(found)
}

/// Returns a signature with the default values.
fn empty(id: &str, title: &str) -> Signature {
    Signature {
        id: id.to_owned(),
        title: title.to_owned(),
        severity: Severity::Warning,
        daemons: Vec::new(),
        roots: Vec::new(),
        waiters: Vec::new(),
        hangs: String::new(),
        act: Vec::new(),
        threads: Vec::new(),
        overdue_minutes: 1,
        least: 1,
    }
}

/// Applies one line `key: value` to a signature.
fn set(signature: &mut Signature, key: &str, value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Err(format!("`{key}:` has no value"));
    }
    match key {
        "severity" => {
            signature.severity = match value {
                "critical" => Severity::Critical,
                "warning" => Severity::Warning,
                "info" => Severity::Info,
                _ => return Err(format!("`{value}` is not a severity: critical, warning or info")),
            };
        }
        "daemon" => {
            let daemon = Daemon::parse(value).ok_or_else(|| {
                format!("`{value}` is not a daemon: containerd, containerd-shim, crio or kubelet")
            })?;
            signature.daemons.push(daemon);
        }
        "frames" => signature.roots.push(pattern(value)?),
        "waiters" => signature.waiters.push(pattern(value)?),
        "minutes" => {
            signature.overdue_minutes =
                value.parse().map_err(|_| format!("`{value}` is not a whole number of minutes"))?;
        }
        "least" => {
            signature.least = value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
        }
        "hangs" => value.clone_into(&mut signature.hangs),
        "next" => signature.act.push(value.to_owned()),
        "thread" => signature.threads.push(value.to_owned()),
        _ => {
            return Err(format!(
                "`{key}` is not a key: severity, daemon, frames, waiters, minutes, least, hangs, next or thread"
            ));
        }
    }
    Ok(())
}

fn pattern(value: &str) -> Result<Pattern, String> {
    let frames: Vec<&str> = value.split('>').map(str::trim).collect();
    if frames.iter().any(|frame| frame.trim_start_matches('^').is_empty()) {
        return Err(format!("`{value}` has an empty frame, which would match everything"));
    }
    Ok(Pattern::new(&frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_signatures_is_parsed() {
        let text = "# ours\n[X01] the hook does not answer\nseverity: critical\ndaemon: containerd\n\
                    frames: RunPodSandbox > hook.(*Client).Ask\nwaiters: hook.(*Gate)\nnext: look\nthread: a/b#7\nminutes: 5\nleast: 3\n";
        let found = parse(text).unwrap();
        assert_eq!(
            (found[0].id.as_str(), found[0].severity, found[0].overdue_minutes, found[0].least),
            ("X01", Severity::Critical, 5, 3)
        );
        assert_eq!(found[0].roots, [Pattern::new(&["RunPodSandbox", "hook.(*Client).Ask"])]);
        assert_eq!(found[0].daemons, [Daemon::Containerd]);
    }

    #[test]
    fn error_names_the_line() {
        for (text, line, part) in [
            ("frames: a", 1, "before the first"),
            ("[X] t\nframe: a", 2, "not a key"),
            ("[X] t\nseverity: bad", 2, "not a severity"),
            ("[X] t\ndaemon: docker", 2, "not a daemon"),
            ("[X] t\nframes: a > > b", 2, "empty frame"),
            ("[X] t\nframes: a\n[X] u", 3, "twice"),
            ("[X t", 1, "begins with"),
            ("[X] t\nhello", 2, "neither"),
            ("[X] t\nframes:", 2, "has no value"),
        ] {
            match parse(text).unwrap_err() {
                Error::Line { line: at, what } => {
                    assert_eq!(at, line, "{text}");
                    assert!(what.contains(part), "{text}: {what}");
                }
                other => panic!("{text}: {other}"),
            }
        }
        assert_eq!(parse("[X] t\nhangs: all").unwrap_err(), Error::NoFrames { id: "X".to_owned() });
        assert_eq!(parse("# nothing").unwrap_err(), Error::Empty);
    }
}
