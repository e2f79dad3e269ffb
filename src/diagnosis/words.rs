//! Formats numbers with nouns, ids and durations for the report.

use crate::clock::Wall;
pub use crate::report::duration::in_sentence as seconds;
use crate::report::escape::shell_word;

/// Returns the first twelve digits of an id; crictl shows the same.
pub fn short(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Formats a time of day with its zone; with its date if it is more than a day away.
pub fn clock_time(now: Wall, at: Wall) -> String {
    const DAY: f64 = 86_400.0;
    let text = at.to_string();
    let first = if now.seconds_since(at).abs() < DAY { 11 } else { 0 };
    format!("{} UTC", text.get(first..19).unwrap_or(&text).replace('T', " "))
}

/// Returns a path as a word of a shell's command; `None` if it has characters that a terminal does not show.
pub fn quoted(path: &str) -> Option<String> {
    (!path.chars().any(char::is_control)).then(|| shell_word(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_or_quotes_stays_one_word() {
        assert_eq!(quoted("/var/lib/kubelet/pods/u-1~2").as_deref(), Some("/var/lib/kubelet/pods/u-1~2"));
        assert_eq!(quoted("/mnt/my disk").as_deref(), Some("'/mnt/my disk'"));
        assert_eq!(quoted("/mnt/it's $HOME").as_deref(), Some(r"'/mnt/it'\''s $HOME'"));
        assert_eq!(quoted("~root").as_deref(), Some("'~root'"));
        assert_eq!(quoted("/mnt/a\nb"), None);
    }

    #[test]
    fn an_id_may_be_shorter_than_its_short_form() {
        assert_eq!(short("abc"), "abc");
        assert_eq!(short("0123456789abcdef"), "0123456789ab");
    }
}
