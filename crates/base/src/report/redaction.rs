//! Removes secret values from command lines, configurations, mount options and journals that plegctl puts into reports,
//! bundles and files. A value is secret if its name contains a word such as `token` or `password`. In a log, the text
//! around such a name is removed too, and so are private keys and other texts that look like a credential.

use serde_json::Value;

/// Parts of a name that mark its value as secret.
const SECRETS: [&str; 7] = ["token", "password", "passwd", "secret", "header", "credential", "private"];
/// The text that replaces a secret value.
const LEFT_OUT: &str = "(left out)";

/// More parts of names in logs that mark the text after them as secret.
const SECRETS_IN_LOGS: [&str; 12] = [
    "authorization",
    "cookie",
    "signature",
    "apikey",
    "api-key",
    "api_key",
    "passphrase",
    "key-data",
    "accountkey",
    "accesskey",
    "access-key",
    "access_key",
];

/// Texts in logs of the kubelet after which values without names follow: the environment of a container, and a command in it.
const SECRET_LISTS_IN_LOGS: [&str; 2] = ["Env:[]EnvVar{", "cmd=["];

/// Ends of names in logs that mark the text after them as secret.
const SECRET_ENDS_IN_LOGS: [&str; 4] = ["sig", "pass", "pwd", "auth"];

/// Words after which a credential follows.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// The maximum number of lines of a private key that are removed. Its end may be missing.
const MAX_KEY_LINES: usize = 100;

/// Removes secrets from a log. A log quotes values in many ways, so the rest of a line is removed after a secret name with a
/// value, after `Bearer` or `Basic`, from the beginning of a private key and from a JSON web token on. The user in a URL is removed
/// too. If the value of a secret name is on the next line, that line is removed.
pub fn without_secrets_of_log(text: &str) -> String {
    let mut shown = String::new();
    // The number of next lines that contain a secret.
    let mut secret_lines = 0;
    for line in text.lines() {
        // A line may end a certificate and begin a key.
        let is_key_end = line.rfind("-----END ") > line.rfind("-----BEGIN ");
        let key_begin = line.find("-----BEGIN ").filter(|at| line[*at..].contains("PRIVATE KEY"));
        let begin = [key_begin, secret_begin(line), list_begin(line)].into_iter().flatten().min();
        let begin = if secret_lines > 0 { Some(0) } else { begin };
        let visible = line.get(..begin.unwrap_or(line.len())).unwrap_or_default();
        shown.push_str(&without_url_users(visible));
        if begin.is_some() {
            shown.push_str(LEFT_OUT);
        }
        shown.push('\n');
        secret_lines = match (key_begin, begin) {
            (Some(_), _) if !is_key_end => MAX_KEY_LINES,
            _ if is_key_end => 0,
            (None, Some(begin)) if secret_lines == 0 && line[begin..].trim().is_empty() => 1,
            _ => secret_lines.saturating_sub(1),
        };
    }
    shown
}

/// Returns where the first list of values without names begins in a line.
fn list_begin(line: &str) -> Option<usize> {
    SECRET_LISTS_IN_LOGS.iter().filter_map(|list| Some(line.find(list)? + list.len())).min()
}

/// Returns where the first secret of a line begins.
fn secret_begin(line: &str) -> Option<usize> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut begin = 0;
    for word in line.split(|letter| !is_of_name(letter)) {
        let end = begin + word.len();
        let rest = &line[end..];
        let name = word.to_ascii_lowercase();
        if name.starts_with("eyj") && name.len() > 20 && name.contains('.') {
            return Some(begin);
        }
        let is_scheme = SCHEMES.contains(&name.as_str());
        let is_secret = is_scheme
            || is_secret(&name)
            || SECRETS_IN_LOGS.iter().any(|secret| name.contains(secret))
            || SECRET_ENDS_IN_LOGS.iter().any(|secret| name.ends_with(secret));
        // Only after a secret name, because the search for a value may read the whole rest of the line.
        if is_secret && let Some(length) = value_separator(rest, word.starts_with('-'), is_scheme) {
            return Some(end + length);
        }
        begin = end + rest.chars().next().map_or(0, char::len_utf8);
    }
    None
}

/// Returns the length of what separates a name from its value at the beginning of `rest`; `None` if no value follows. After a flag,
/// a value may also follow as the next word or the next text of a list. After a scheme, a credential follows as the next word.
fn value_separator(rest: &str, is_flag: bool, is_scheme: bool) -> Option<usize> {
    let after_quote = rest.trim_start_matches(['\\', '"', '\'']);
    let quotes = rest.len() - after_quote.len();
    let after_blank = after_quote.trim_start();
    let after = |text: &str| rest.len() - text.len();
    if after_quote.starts_with(':') || after_quote.starts_with(" map[") {
        return Some(quotes + 1);
    }
    if after_blank.starts_with('=') {
        return Some(after(after_blank) + 1);
    }
    if after_quote.get(..3).is_some_and(|encoded| encoded.eq_ignore_ascii_case("%3d")) {
        return Some(quotes + 3);
    }
    if is_flag && (after_quote.starts_with(' ') || (quotes > 0 && after_quote.starts_with(','))) {
        return Some(quotes + 1);
    }
    let is_credential =
        after_blank.bytes().take_while(|byte| !byte.is_ascii_whitespace()).take(4).count() == 4;
    (is_scheme && after_quote.starts_with(' ') && is_credential).then(|| after(after_blank))
}

/// Removes the user and the password from each URL of a line.
fn without_url_users(line: &str) -> String {
    let mut parts = line.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("://");
        let authority = part.split(['/', '?', '#', ' ', '"', '\'']).next().unwrap_or_default();
        match authority.rsplit_once('@') {
            Some((user, _)) => shown.extend([LEFT_OUT, &part[user.len()..]]),
            None => shown.push_str(part),
        }
    }
    shown
}

/// Removes passwords and other secrets from mount options. For example, the options of a CIFS mount contain a password.
pub fn without_secrets_of_mounts(text: &str) -> String {
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
pub fn without_secrets<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
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
pub fn without_secret_values(text: &str) -> String {
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
    use proptest::prelude::*;

    use super::*;
    use crate::report::escape;

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
    fn secrets_in_logs_are_redacted_with_the_rest_of_the_line() {
        for (line, shown) in [
            (
                r#"flags.go:64] FLAG: --manifest-url-header="X-Site:t0p""#,
                "flags.go:64] FLAG: --manifest-url-header=(left out)",
            ),
            (
                r#""Adding URL" staticPodURLHeader={"X-Site":["t0p"]}"#,
                r#""Adding URL" staticPodURLHeader=(left out)"#,
            ),
            ("with HTTP header map[X-Site:[t0p]]", "with HTTP header (left out)"),
            (r#"err="{\"Authorization\":[\"Basic t0p\"]}""#, r#"err="{\"Authorization\":(left out)"#),
            ("sends Bearer t0p0 to the server", "sends Bearer (left out)"),
            ("a header Basic dXNlcjp0MHA=", "a header Basic (left out)"),
            ("kubelet --token t0p --v 2", "kubelet --token (left out)"),
            (r#"["mysqladmin","--password","t0p"]"#, r#"["mysqladmin","--password",(left out)"#),
            (r#"["redis-cli","--pass","t0p"]"#, r#"["redis-cli","--pass",(left out)"#),
            (r#"err="x" cmd=["redis-cli","-a","t0p"]"#, r#"err="x" cmd=[(left out)"#),
            (
                "&Container{Name:app,Env:[]EnvVar{EnvVar{Name:DB_PASSWORD,Value:t0p,},},}",
                "&Container{Name:app,Env:[]EnvVar{(left out)",
            ),
            ("--db-password=t0p -----BEGIN PRIVATE KEY-----", "--db-password=(left out)"),
            (
                "-----END CERTIFICATE----------BEGIN PRIVATE KEY-----\nt0p",
                "-----END CERTIFICATE-----(left out)\n(left out)",
            ),
            ("azurestorageaccountkey=t0p", "azurestorageaccountkey=(left out)"),
            ("DB_PASS=t0p", "DB_PASS=(left out)"),
            ("password = \"t0p\"", "password =(left out)"),
            ("password%3Dt0p", "password%3D(left out)"),
            (r"?a=b\u0026sig=t0p", r"?a=b\u0026sig=(left out)"),
            ("client-key-data: t0p", "client-key-data:(left out)"),
            (r#"{"auth":"t0p"}"#, r#"{"auth":(left out)"#),
            ("token:\n  t0p\nnext", "token:(left out)\n(left out)\nnext"),
            ("pull https://u:t0p@registry.example/i: 401", "pull https://(left out)@registry.example/i: 401"),
            (
                "PUT https://s.example/a?X-Amz-Signature=t0p",
                "PUT https://s.example/a?X-Amz-Signature=(left out)",
            ),
            ("jwt eyJhbGciOiJSUzI1NiIsImtpZCI6.t0p.x end", "jwt (left out)"),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nt0p\n-----END RSA PRIVATE KEY-----\nb",
                "a\n(left out)\n(left out)\n(left out)\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\nt0p", "(left out)\n(left out)"),
            (
                r#"output="-----BEGIN PRIVATE KEY-----\nt0p\n-----END PRIVATE KEY-----" exit=1"#,
                "output=\"(left out)",
            ),
            ("größer: pass=t0p", "größer: pass=(left out)"),
        ] {
            assert_eq!(without_secrets_of_log(line), format!("{shown}\n"));
        }
        let unended = "-----BEGIN PRIVATE KEY-----\n".to_owned() + &"PLEG is not healthy\n".repeat(200);
        assert!(without_secrets_of_log(&unended).ends_with("PLEG is not healthy\n"), "the end is missing");
        let key_in_one_line = "a=\"-----BEGIN PRIVATE KEY-----t0p-----END PRIVATE KEY-----\"\nnext";
        assert_eq!(without_secrets_of_log(key_in_one_line), "a=\"(left out)\nnext\n");
        for unchanged in [
            r#"MountVolume.SetUp succeeded for volume "default-token-x1" pod="shop/db-0""#,
            "PLEG is not healthy: pleg was last seen active 3m8s ago; threshold is 3m0s",
            "https://10.0.0.1:6443/api/v1/nodes?watch=true user@host",
            "the token",
        ] {
            assert_eq!(without_secrets_of_log(unchanged), format!("{unchanged}\n"));
        }
    }

    #[test]
    fn line_of_a_log_is_read_only_a_few_times() {
        // If each word looked for its value in the rest of the line, this test would take hours.
        for part in ["a:", "a\"", "bearer ", "token\"", "a://", "é"] {
            let line = part.repeat(2_000_000 / part.len());
            let shown = without_secrets_of_log(&format!("{line} x\npassword=t0p\n"));
            assert!(!shown.contains("t0p") && shown.ends_with("password=(left out)\n"), "{part}");
        }
    }

    proptest! {
        #[test]
        fn log_of_any_text_has_only_lines_and_tabs(text: String, secret in "[a-z0-9]{8,20}") {
            let shown = escape::log(&without_secrets_of_log(&format!("{text}\ntoken={secret}\n")));
            let is_hostile = |letter: char| escape::is_hostile(letter) && !matches!(letter, '\n' | '\t');
            prop_assert!(!shown.contains(is_hostile), "{shown:?}");
            prop_assert!(!shown.contains(&format!("={secret}")), "{shown:?}");
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
