//! Fuzzes the journals that `health --node --bundle` saves: a saved journal has no character that a terminal interprets, and
//! no secret.

use super::fuzz;
use plegctl_engine::report::escape;
use plegctl_engine::report::redaction::without_secrets_of_log;

/// The value of a secret.
const SECRET: &str = "s3cr3t0fth3fuzz3r";

#[test]
fn journals() {
    let line = "Nov 21 02:00:01 open kubelet[7]:";
    let seeds = [
        format!("{line} FLAG: --manifest-url-header=\"X-Site:t0p\"\n{line} skipping pod synchronization\n"),
        format!(
            "{line} -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n{line} ended\n"
        ),
        format!(
            "{line} \x1b[2J\x07\u{202e}\r https://user:pass@host/ Authorization: Bearer abc\n-- No entries --\n"
        ),
        format!("{line} {{\"password\": \"x\", \"env\": [\"TOKEN=y\"]}}\n\ttoken:\n  z\n"),
    ];
    fuzz("journals", seeds.map(String::into_bytes).into(), |bytes| {
        let journal = [bytes, b"\ntoken=", SECRET.as_bytes(), b"\n"].concat();
        let saved = escape::log(&without_secrets_of_log(&String::from_utf8_lossy(&journal)));
        let is_control = |letter: char| {
            (letter.is_control() && !matches!(letter, '\n' | '\t'))
                || ('\u{202a}'..='\u{202e}').contains(&letter)
        };
        assert!(!saved.contains(is_control), "{saved:?}");
        assert!(!saved.contains(SECRET), "{saved:?}");
    });
}
