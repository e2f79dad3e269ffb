//! Fuzzes kubeconfigs with any content, and the output of a credential program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{assert_shows, fuzz};
use crate::support::socket::TempDir;

/// An address without a listener.
const SERVER: &str = "http://127.0.0.1:9";

fn kubeconfig(cluster: &str, user: &str) -> Vec<u8> {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
         clusters:\n- name: k\n  cluster: {cluster}\nusers:\n- name: u\n  user: {user}\n"
    )
    .into_bytes()
}

#[test]
fn kubeconfigs() {
    let folder = TempDir::new();
    let path = folder.path().join("kubeconfig");
    let cluster = format!("{{server: \"{SERVER}\"}}");
    let plain = |user: &str| kubeconfig(&cluster, user);
    // No program with this name exists on any machine, and a few changed letters do not make it one that does.
    let program = "/plegctl-fuzz/no-such-directory/credential-program";
    let seeds = vec![
        plain("{token: t}"),
        plain("null"),
        plain("{token: ~, tokenFile: Null, exec: null}"),
        plain(&format!(
            "{{exec: {{apiVersion: v1, command: {program}, args: [a, ~], env: [{{name: A, value: b}}]}}}}"
        )),
        plain("{username: a, password: b, auth-provider: {name: gcp}}"),
        plain("{client-certificate-data: QQ==, client-key-data: QQ==}"),
        kubeconfig(
            "{server: \"https://127.0.0.1:9\", insecure-skip-tls-verify: yes, tls-server-name: x, certificate-authority-data: QQ==}",
            "{tokenFile: none}",
        ),
        b"{\"current-context\": \"c\", \"contexts\": [], \"users\": null, \"clusters\": null}".to_vec(),
        b"users: &a [*a]\n".to_vec(),
    ];
    fuzz("kubeconfigs", seeds, |bytes| {
        fs::write(&path, bytes).unwrap();
        assert_shows(&["nodes", "--timeout", "5s", "--kubeconfig"], &[path.to_str().unwrap()]);
    });
}

#[test]
fn credentials() {
    let folder = TempDir::new();
    let [path, program, output] = ["kubeconfig", "program", "output"].map(|name| folder.path().join(name));
    fs::write(&program, format!("#!/bin/sh\nexec cat {}\n", output.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let user =
        format!("{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {}}}}}", program.display());
    fs::write(&path, kubeconfig(&format!("{{server: \"{SERVER}\"}}"), &user)).unwrap();
    let begin = "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":";
    let seeds = [
        "{\"token\":\"t\",\"expirationTimestamp\":\"2026-01-01T00:00:00Z\"}}",
        "{\"clientCertificateData\":\"-----BEGIN CERTIFICATE-----\\nQQ==\\n-----END CERTIFICATE-----\\n\",\"clientKeyData\":\"-----BEGIN PRIVATE KEY-----\\nQQ==\\n-----END PRIVATE KEY-----\\n\"}}",
        "null}",
        "{\"token\":null}}",
        "{\"token\":\"a\\u0000\\r\\nb\"}}",
    ];
    let seeds = seeds.map(|status| format!("{begin}{status}").into_bytes());
    fuzz("credentials", seeds.to_vec(), |bytes| {
        fs::write(&output, bytes).unwrap();
        assert_shows(&["nodes", "--timeout", "5s", "--kubeconfig"], &[path.to_str().unwrap()]);
    });
}
