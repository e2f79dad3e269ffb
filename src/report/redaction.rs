//! What is left out of text that somebody else will read: the values of whatever has a secret in its name. Everything else
//! stays as it is; what has no name is not looked at.

use serde_json::Value;

/// What a name has in it whose value is nobody else's business.
const SECRETS: [&str; 7] = ["token", "password", "passwd", "secret", "header", "credential", "private"];
/// What stands for such a value.
const LEFT_OUT: &str = "(left out)";

/// A mount of CIFS has its user and may have his password among its options.
pub(crate) fn without_secrets_of_mounts(text: &str) -> String {
    let plain = |option: &str| match option.split_once('=') {
        Some((name, _)) if is_secret(name) || name == "pass" => format!("{name}={LEFT_OUT}"),
        _ => option.to_owned(),
    };
    let line = |line: &str| line.split(',').map(plain).collect::<Vec<_>>().join(",") + "\n";
    text.lines().map(line).collect()
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRETS.iter().any(|secret| name.contains(secret))
}

/// A command line whose flags with a secret in their name have no value.
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

/// A YAML or JSON text without what stands below a key that has a secret in its name.
pub(crate) fn without_secret_keys(text: &str) -> String {
    match serde_json::from_str(text) {
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

/// Leaves out the line, all that is indented further, anything at the same depth that is no key, and what is in brackets
/// that are open. A line may hold more keys than its first.
fn without_secret_lines(text: &str) -> String {
    let mut shown = String::new();
    let (mut below, mut open): (Option<usize>, usize) = (None, 0);
    for line in text.lines() {
        let depth = line.len() - line.trim_start().len();
        let belongs = |at: usize| {
            depth > at || (depth == at && line.trim_start().starts_with(['-', '[', ']', '{', '}']))
        };
        if open > 0 || below.is_some_and(|at| line.trim().is_empty() || belongs(at)) {
            open = brackets(line, open);
            continue;
        }
        below = None;
        match line.split_once(':') {
            // Behind a key there may be a map on the same line.
            Some((key, value)) if is_secret(key) || (value.contains(':') && is_secret(value)) => {
                below = Some(depth);
                open = brackets(value, 0);
                shown.extend([key, ": ", LEFT_OUT]);
            }
            _ => shown.push_str(line),
        }
        shown.push('\n');
    }
    shown
}

/// How many brackets are open after a line, if so many were before it.
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
    fn a_command_line_keeps_its_secrets() {
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
    fn a_configuration_keeps_its_secrets() {
        let yaml = "kind: KubeletConfiguration\nstaticPodURLHeader:\n  Authorization:\n  - Bearer t0p\n\nmaxPods: 110\n";
        let shown = without_secret_keys(yaml);
        assert_eq!(shown, "kind: KubeletConfiguration\nstaticPodURLHeader: (left out)\nmaxPods: 110\n");
        let flow = "kind: K\nstaticPod: {url: http://x, token: t0p}\n{a: {token: t0p}}\nmaxPods: 110\n";
        let shown = without_secret_keys(flow);
        assert!(!shown.contains("t0p") && shown.contains("maxPods: 110"), "{shown}");
        let compact = r#"{"kind":"K","maxPods":110,"staticPodURLHeader":{"Authorization":["Bearer t0p"]}}"#;
        let shown = without_secret_keys(compact);
        assert!(!shown.contains("t0p") && shown.contains("\"maxPods\": 110"), "{shown}");
        let json = "{\n  \"staticPodURLHeader\": {\n    \"Authorization\": [\"Bearer t0p\"]\n  },\n  \"maxPods\": 110\n}\n";
        let shown = without_secret_keys(json);
        assert!(!shown.contains("t0p") && shown.contains("maxPods"), "{shown}");
        for packed in [
            r#"{"kind":"KubeletConfiguration","staticPodURLHeader":{"Authorization":["Bearer t0p"]},"maxPods":110}"#,
            "{kind: KubeletConfiguration, staticPodURLHeader: {Authorization: [Bearer t0p]}}",
            "{\n\"staticPodURLHeader\":\n{\n\"Authorization\":\n[\"Bearer t0p\"]\n}\n}\n",
        ] {
            let shown = without_secret_keys(packed);
            assert!(!shown.contains("t0p"), "{shown}");
            assert_eq!(shown.contains("110"), packed.contains("110"), "{shown}");
        }
    }

    #[test]
    fn a_mount_keeps_its_password() {
        let line = "36 35 0:50 / /data rw - cifs //srv/x rw,username=u,password=t0p,vers=3.0";
        let shown = without_secrets_of_mounts(line);
        assert!(
            !shown.contains("t0p") && shown.contains("vers=3.0") && shown.contains("username=u"),
            "{shown}"
        );
    }
}
