//! Removes secret values from command lines, configurations and mount options that plegctl puts into reports and
//! bundles. A value is secret if its name contains a word such as `token` or `password`. Other text stays unchanged.

use crate::report::json;
use serde_json::Value;

/// Parts of a name that mark its value as secret.
const SECRETS: [&str; 7] = ["token", "password", "passwd", "secret", "header", "credential", "private"];
/// The text that replaces a secret value.
const LEFT_OUT: &str = "(left out)";

/// Removes passwords and other secrets from mount options. For example, the options of a CIFS mount contain a password.
pub(crate) fn without_secrets_of_mounts(text: &str) -> String {
    let redacted = |option: &str| match option.split_once('=') {
        Some((name, _)) if is_secret(name) || name == "pass" => format!("{name}={LEFT_OUT}"),
        _ => option.to_owned(),
    };
    let line = |line: &str| line.split(',').map(redacted).collect::<Vec<_>>().join(",") + "\n";
    text.lines().map(line).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// Removes the values of flags with secret names from a command line.
pub(crate) fn without_secrets<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut shown = Vec::new();
    let mut next_is_secret = false;
    for word in words {
        let is_flag = word.starts_with('-');
        shown.push(match word.split_once('=') {
            _ if next_is_secret && !is_flag => LEFT_OUT.to_owned(),
            Some((name, _)) if is_flag && is_secret(name) => format!("{name}={LEFT_OUT}"),
            _ => word.to_owned(),
        });
        next_is_secret = is_flag && !word.contains('=') && is_secret(word);
    }
    shown
}

/// Removes the values of keys with secret names from YAML or JSON.
pub(crate) fn without_secret_values(text: &str) -> String {
    match json::parse(text) {
        Ok(mut document) => {
            leave_out_secrets(&mut document);
            format!("{document:#}\n")
        }
        Err(_) => without_secret_lines(text),
    }
}

fn leave_out_secrets(document: &mut Value) {
    match document {
        Value::Object(members) => {
            for (key, value) in members {
                if is_secret(key) {
                    *value = LEFT_OUT.into();
                } else {
                    leave_out_secrets(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_secrets),
        _ => {}
    }
}

/// Removes the value of each secret key from text that is not valid JSON: YAML in block style or flow style. The value
/// consists of:
///
/// - the rest of the key's line,
/// - the next lines, while they are empty, are indented further than the key, or are indented like the key and start
///   with `-` or a bracket,
/// - the next lines until each bracket that the value opens is closed.
fn without_secret_lines(text: &str) -> String {
    let mut shown = String::new();
    let (mut indent_of_secret, mut open_brackets): (Option<usize>, usize) = (None, 0);
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let belongs = |at: usize| {
            indent > at || (indent == at && line.trim_start().starts_with(['-', '[', ']', '{', '}']))
        };
        if open_brackets > 0 || indent_of_secret.is_some_and(|at| line.trim().is_empty() || belongs(at)) {
            open_brackets = brackets(line, open_brackets);
            continue;
        }
        indent_of_secret = None;
        match line.split_once(':') {
            // The value may be a map on the same line, `{url: x, token: y}`. If this map has a secret key, the whole
            // map is removed.
            Some((key, value)) if is_secret(key) || (value.contains(':') && is_secret(value)) => {
                indent_of_secret = Some(indent);
                open_brackets = brackets(value, 0);
                shown.extend([key, ": ", LEFT_OUT]);
            }
            _ => shown.push_str(line),
        }
        shown.push('\n');
    }
    shown
}

/// Returns the number of open brackets after a line, given the number before it.
fn brackets(line: &str, open: usize) -> usize {
    let outside = line.split('"').step_by(2).flat_map(str::chars);
    outside.fold(open, |open, letter| match letter {
        '{' | '[' => open + 1,
        '}' | ']' => open.saturating_sub(1),
        _ => open,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_command_lines_are_redacted() {
        let words =
            ["kubelet", "--v=2", "--manifest-url-header=A:b", "--token", "t0p", "--node-ip", "10.0.0.1"];
        assert_eq!(
            without_secrets(words.into_iter()),
            [
                "kubelet",
                "--v=2",
                "--manifest-url-header=(left out)",
                "--token",
                "(left out)",
                "--node-ip",
                "10.0.0.1"
            ]
        );
    }

    #[test]
    fn secrets_in_configurations_are_redacted() {
        let yaml = "kind: KubeletConfiguration\nstaticPodURLHeader:\n  Authorization:\n  - Bearer t0p\n\nmaxPods: 110\n";
        let shown = without_secret_values(yaml);
        assert_eq!(shown, "kind: KubeletConfiguration\nstaticPodURLHeader: (left out)\nmaxPods: 110\n");
        let flow = "kind: K\nstaticPod: {url: http://x, token: t0p}\n{a: {token: t0p}}\nmaxPods: 110\n";
        let shown = without_secret_values(flow);
        assert!(!shown.contains("t0p") && shown.contains("maxPods: 110"), "{shown}");
        let compact = r#"{"kind":"K","maxPods":110,"staticPodURLHeader":{"Authorization":["Bearer t0p"]}}"#;
        let shown = without_secret_values(compact);
        assert!(!shown.contains("t0p") && shown.contains("\"maxPods\": 110"), "{shown}");
        let json = "{\n  \"staticPodURLHeader\": {\n    \"Authorization\": [\"Bearer t0p\"]\n  },\n  \"maxPods\": 110\n}\n";
        let shown = without_secret_values(json);
        assert!(!shown.contains("t0p") && shown.contains("maxPods"), "{shown}");
        for packed in [
            r#"{"kind":"KubeletConfiguration","staticPodURLHeader":{"Authorization":["Bearer t0p"]},"maxPods":110}"#,
            "{kind: KubeletConfiguration, staticPodURLHeader: {Authorization: [Bearer t0p]}}",
            "{\n\"staticPodURLHeader\":\n{\n\"Authorization\":\n[\"Bearer t0p\"]\n}\n}\n",
        ] {
            let shown = without_secret_values(packed);
            assert!(!shown.contains("t0p"), "{shown}");
            assert_eq!(shown.contains("110"), packed.contains("110"), "{shown}");
        }
    }

    #[test]
    fn passwords_in_mount_options_are_redacted() {
        let line = "36 35 0:50 / /data rw - cifs //srv/x rw,username=u,password=t0p,vers=3.0";
        let shown = without_secrets_of_mounts(line);
        assert!(
            !shown.contains("t0p") && shown.contains("vers=3.0") && shown.contains("username=u"),
            "{shown}"
        );
    }
}
