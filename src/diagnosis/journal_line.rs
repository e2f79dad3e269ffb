//! Reads the fields of a line of `journalctl --output=short-unix`.

/// The most characters of a text that are kept.
pub const MAX_TEXT: usize = 300;

/// Returns the beginning of a text, with all of its ids.
pub fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// Returns the process id and the message of a line that `program` logged: `STAMP HOST PROGRAM[PID]: MESSAGE`. Returns
/// `None` for the line of another program, even if its message contains such a text.
pub fn logged_by<'a>(line: &'a str, program: &str) -> Option<(u32, &'a str)> {
    let (_stamp, rest) = line.split_once(' ')?;
    let (_host, rest) = rest.split_once(' ')?;
    let (pid, message) = rest.strip_prefix(program)?.strip_prefix('[')?.split_once("]: ")?;
    Some((pid.parse().ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_program_that_logs_counts() {
        let line = "1700000000.1 n1 kubelet[77]: E run.go:72] \"command failed\" err=\"x\"";
        assert_eq!(logged_by(line, "kubelet"), Some((77, "E run.go:72] \"command failed\" err=\"x\"")));
        assert_eq!(logged_by(line, "containerd"), None);
        let quoted = format!("1700000000.1 n1 containerd[5]: pod says: {line}");
        assert_eq!(logged_by(&quoted, "kubelet"), None);
        assert_eq!(logged_by("1700000000.1 n1 kubelet[x]: y", "kubelet"), None);
        assert_eq!(logged_by("-- Boot --", "kubelet"), None);
    }
}
