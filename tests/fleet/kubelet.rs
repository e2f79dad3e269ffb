//! Tests of `plegctl health` with a scripted kubelet: through its own port, and through an API server.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::api::{Clients, Reply, Request, Server};
use super::file;
use super::nodes::{TestFile, authority, kubeconfig};
use crate::cli::preflight::node as test_node;
use crate::support::plegctl::{Invocation, Output};

/// The time-out differs from the default of two minutes, so that the report shows that plegctl uses it.
const CONFIGZ: &str = r#"{"kubeletconfig":{"runtimeRequestTimeout":"3m30s","staticPodURLHeader":{"Authorization":["Bearer hidden"]}}}"#;

/// Returns the metrics of a kubelet whose last relist was this number of seconds ago.
fn metrics(age: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    format!(
        "kubelet_pleg_last_seen_seconds {}\nkubernetes_build_info{{git_version=\"v1.34.2\"}} 1\n",
        now - age
    )
}

/// Returns the answer of a kubelet, on its own port or through the API server's node proxy.
fn document(request: &Request) -> Reply {
    match request.path.rsplit('/').next() {
        Some("configz") => Reply::ok(CONFIGZ),
        Some("metrics") => Reply::ok(metrics(1)),
        Some("healthz") => Reply::ok("ok"),
        _ => Reply::Answer(404, "404 page not found".to_owned()),
    }
}

fn pki(name: &str) -> String {
    file(&format!("tests/fleet/pki/{name}")).display().to_string()
}

fn health(arguments: &[&str]) -> (Output, Value) {
    with_report(Invocation::new(&[&["health", "-r", "sim:quiet", "-o", "json"], arguments].concat()))
}

/// Runs `health --node n1` on that node, whose kubelet is reached through this API server.
fn on_node(config: &TestFile, more: &[&str]) -> (Output, Value) {
    let node = test_node("/usr/bin/kubelet --hostname-override=n1", "cgroup2", &[]);
    let known = ["health", "-o", "json", "--node", "n1", "--kubeconfig", config.0.to_str().unwrap()];
    with_report(Invocation::new(&[&known, more].concat()).env("PLEGCTL_TEST_NODE", node.path()))
}

fn with_report(invocation: Invocation) -> (Output, Value) {
    let output = invocation.run();
    let report = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    (output, report)
}

/// Runs `health` with a token and the certificate of the test authority.
fn with_token(server: &Server, more: &[&str]) -> (Output, Value) {
    let token = TestFile::new("t0ken\n");
    let token = token.0.to_str().unwrap();
    let (url, ca) = (server.url(), pki("authority.crt"));
    let known = ["--kubelet-url", &url, "--kubelet-token-file", token, "--kubelet-ca-file", &ca];
    health(&[&known, more].concat())
}

/// Returns the outcome of a probe.
fn outcome<'a>(report: &'a Value, probe: &str) -> &'a str {
    let probes = report["probes"].as_array().unwrap();
    let found = probes.iter().find(|found| found["name"] == probe);
    found.map_or("not probed", |found| found["outcome"].as_str().unwrap())
}

/// Returns the reason why `what` was not checked.
fn why_not<'a>(report: &'a Value, what: &str) -> &'a str {
    let skipped = report["notChecked"].as_array().unwrap();
    let found = skipped.iter().find(|skipped| skipped["what"] == what);
    found.map_or("", |found| found["why"].as_str().unwrap())
}

/// Returns the time-out of the estimate and its source.
fn request_timeout(report: &Value) -> String {
    let basis = report["estimate"]["basis"].as_array().unwrap();
    let lines: Vec<String> =
        basis.iter().map(|basis| format!("{} {}", basis["value"], basis["source"])).collect();
    lines.join("\n")
}

#[test]
fn token_gives_access_to_metrics_and_configuration() {
    let server = Server::start("server", Clients::Any, document);
    let (output, report) = with_token(&server, &[]);
    assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{output}");
    assert_eq!(outcome(&report, "kubelet metrics"), "ok");
    assert_eq!(outcome(&report, "kubelet /configz"), "ok");
    assert_eq!(report["kubelet"]["version"], "v1.34.2");
    let basis = request_timeout(&report);
    assert!(basis.contains("3m30s") && basis.contains("the kubelet's configz"), "{basis}");
    let requests = server.requests();
    assert!(
        requests.iter().all(|request| request.authorization.as_deref() == Some("Bearer t0ken")),
        "{requests:?}"
    );
    assert!(
        requests.iter().all(|request| ["/metrics", "/configz"].contains(&request.path.as_str())),
        "{requests:?}"
    );
    // An explicit option overrides the kubelet's own value.
    let (_, report) = with_token(&server, &["--runtime-request-timeout", "50s"]);
    assert!(request_timeout(&report).contains("--runtime-request-timeout"), "{report}");
}

#[test]
fn client_certificate_authenticates_to_a_kubelet() {
    let server = Server::start("server", Clients::WithCertificate, document);
    let (url, ca, certificate, key) =
        (server.url(), pki("authority.crt"), pki("client.crt"), pki("client.key"));
    let server_options = ["--kubelet-url", &url, "--kubelet-ca-file", &ca];
    let client = ["--kubelet-client-cert", &certificate, "--kubelet-client-key", &key];
    let (output, report) = health(&[&server_options[..], &client].concat());
    assert_eq!((outcome(&report, "kubelet metrics"), output.code), ("ok", Some(0)), "{output}");
    let (_, report) = health(&server_options);
    let why = why_not(&report, "the kubelet's metrics");
    assert!(why.contains("does not accept plegctl's client certificate, or requires one"), "{why}");
}

#[test]
fn stale_kubelet_is_found_through_its_own_port() {
    let server = Server::start("server", Clients::Any, |request| match request.path.as_str() {
        "/metrics" => Reply::ok(metrics(400)),
        _ => document(request),
    });
    let (output, report) = with_token(&server, &["--budget", "10s"]);
    assert_eq!((output.code, &report["primary"]["id"]), (Some(1), &"D22".into()), "{output}");
}

#[test]
fn silent_kubelet_is_never_healthy() {
    for silence in [Reply::Silent, Reply::Half("kubelet_pleg")] {
        let server = Server::start("server", Clients::Any, move |request| match request.path.as_str() {
            "/metrics" => silence.clone(),
            _ => document(request),
        });
        let (output, report) = with_token(&server, &[]);
        assert_eq!((&report["verdict"], output.code), (&"degraded".into(), Some(0)), "{output}");
        assert_eq!(report["primary"]["id"], "D32", "{output}");
        assert_eq!(report["primary"]["title"], "the kubelet does not answer /metrics", "{output}");
        assert_eq!(outcome(&report, "kubelet metrics"), "silent");
        assert_eq!(outcome(&report, "kubelet /configz"), "ok", "/configz answers while a list call hangs");
    }
}

#[test]
fn silence_of_all_authenticated_paths_is_not_blamed_on_the_kubelet() {
    // The kubelet waits for the API server, which reviews the token.
    let server = Server::start("server", Clients::Any, |_| Reply::Silent);
    let (output, report) = with_token(&server, &[]);
    assert_eq!((&report["verdict"], output.code), (&"healthy".into(), Some(0)), "{output}");
    assert!(why_not(&report, "the kubelet's metrics").starts_with("not known: "), "{output}");
    assert_eq!(outcome(&report, "kubelet metrics"), "silent", "{output}");
    assert!(!output.stdout.contains("waits for a list"), "{output}");
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert!(paths.contains(&"/metrics/probes".to_owned()), "{paths:?}");
}

#[test]
fn hung_api_server_is_not_reported_as_a_hung_kubelet() {
    let server = Server::start("server", Clients::Any, |_| Reply::Silent);
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let (output, report) = on_node(&config, &[]);
    assert_eq!((&report["verdict"], output.code), (&"healthy".into(), Some(0)), "{output}");
    for what in ["the kubelet's metrics", "the kubelet's /healthz"] {
        assert!(why_not(&report, what).starts_with("not known: "), "{what}: {output}");
    }
    // Another path of the same kubelet answers, so the connection works.
    let server = Server::start("server", Clients::Any, |request| {
        if request.path.ends_with("/healthz") { Reply::Silent } else { document(request) }
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let (output, report) = on_node(&config, &[]);
    assert_eq!(report["primary"]["title"], "the kubelet does not answer /healthz", "{output}");
}

#[test]
fn silent_metrics_through_the_api_server_need_a_second_path() {
    for (probes, primary) in
        [(Reply::ok("prober_probe_total 1\n"), "D32"), (Reply::Answer(504, String::new()), "D00")]
    {
        let server = Server::start("server", Clients::Any, move |request| match &request.path {
            path if path.ends_with("/metrics") => Reply::Silent,
            path if path.ends_with("/metrics/probes") => probes.clone(),
            _ => document(request),
        });
        let config = kubeconfig(&server.url(), &authority(), "token: t");
        let (output, report) = on_node(&config, &[]);
        assert_eq!(report["primary"]["id"], primary, "{output}");
    }
}

/// Returns the default screen of a run with a token and a server with this certificate.
fn screen(certificate: &str, reply: Reply, authority: &str) -> Output {
    let server = Server::start(certificate, Clients::Any, move |_| reply.clone());
    let token = TestFile::new("t0ken\n");
    let (url, ca) = (server.url(), pki(authority));
    let known = ["--kubelet-url", &url, "--kubelet-token-file", token.0.to_str().unwrap()];
    let arguments = [&["health", "-r", "sim:quiet", "--kubelet-ca-file", &ca], &known[..]].concat();
    Invocation::new(&arguments).run()
}

#[test]
fn rejected_credential_is_on_the_default_screen() {
    let refused = Reply::Answer(401, "Unauthorized".to_owned());
    let output = screen("server", refused, "authority.crt");
    assert!(output.stdout.starts_with("HEALTHY"), "{output}");
    assert!(output.stdout.contains("does not accept the credentials (401)"), "{output}");
    let stranger = screen("server", Reply::ok("ok"), "stranger.crt");
    assert!(stranger.stdout.contains("that no trusted authority has signed"), "{stranger}");
    assert!(stranger.stdout.lines().count() <= 24, "{stranger}");
}

#[test]
fn server_certificate_in_the_ca_file_is_accepted() {
    let server = Server::start("own-authority", Clients::Any, document);
    let (url, own) = (server.url(), pki("own-authority.crt"));
    let (output, report) = health(&["--kubelet-url", &url, "--kubelet-ca-file", &own]);
    assert_eq!((outcome(&report, "kubelet metrics"), output.code), ("ok", Some(0)), "{output}");
}

#[test]
fn self_signed_certificate_of_this_nodes_kubelet_is_accepted_at_a_url_by_each_command() {
    let own = fs::read_to_string(pki("other-name.crt")).unwrap();
    let node = test_node("/usr/bin/kubelet", "cgroup2", &[("var/lib/kubelet/pki/kubelet.crt", &own)]);
    let run = |arguments: &[&str], server: &Server| {
        let token = TestFile::new("t0ken\n");
        let url = server.url();
        let known = ["-o", "json", "--kubelet-url", &url, "--kubelet-token-file", token.0.to_str().unwrap()];
        Invocation::new(&[arguments, &known].concat()).env("PLEGCTL_TEST_NODE", node.path()).run()
    };
    let answer = |request: &Request| match request.path.as_str() {
        "/debug/pprof/goroutine?debug=2" => Reply::ok("goroutine 1 [select]:\nmain.f(0x1)\n\t/a.go:1 +0x1\n"),
        _ => document(request),
    };
    let kubelet = Server::start("other-name", Clients::Any, answer);
    let output = run(&["health", "-r", "sim:quiet"], &kubelet);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((outcome(&report, "kubelet metrics"), output.code), ("ok", Some(0)), "{output}");
    let output = run(&["stacks", "--once"], &kubelet);
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(kubelet.requests().last().unwrap().authorization.as_deref(), Some("Bearer t0ken"));
    // The token goes to no server whose certificate nobody vouches for.
    let stranger = Server::start("server", Clients::Any, answer);
    let output = run(&["stacks", "--once"], &stranger);
    assert_eq!((output.code, stranger.requests().len()), (Some(2), 0), "{output}");
    assert!(output.stderr.contains("--kubelet-ca-file"), "{output}");
}

#[test]
fn each_kubelet_failure_has_its_own_error() {
    let page = "<html>Welcome</html>";
    let failures = [
        ("server", Reply::Answer(401, "Unauthorized".to_owned()), "does not accept the credentials (401)"),
        (
            "server",
            Reply::Answer(403, "Forbidden (user=x, verb=get)".to_owned()),
            "forbids the request (403): Forbidden",
        ),
        ("server", Reply::Answer(403, String::new()), "`get` on nodes/metrics"),
        ("server", Reply::Redirect("https://login.example/"), "redirects to `https://login.example/`"),
        ("server", Reply::Answer(500, "Authorization error".to_owned()), "answers 500: Authorization error"),
        ("server", Reply::ok(page), "does not contain kubelet metrics"),
        ("server", Reply::Cut("kubelet_pleg"), "ended the connection after"),
        ("other-name", Reply::ok(page), "shows a certificate for another name"),
        ("expired", Reply::ok(page), "shows a certificate that has expired"),
    ];
    for (certificate, reply, expected) in failures {
        let server = Server::start(certificate, Clients::Any, move |_| reply.clone());
        let (output, report) = with_token(&server, &[]);
        let why = why_not(&report, "the kubelet's metrics");
        assert!(why.contains(expected), "{expected}: {output}");
        assert!(!why_not(&report, "the kubelet's configz").is_empty(), "{expected}: {output}");
        // If the page is not a metrics page, there is no answer (status 2). The other failures are only reported, and
        // the verdict stays.
        assert_eq!(
            output.code,
            Some(if expected.starts_with("does not contain") { 2 } else { 0 }),
            "{output}"
        );
    }
    let server = Server::start("server", Clients::Any, document);
    let (url, stranger) = (server.url(), pki("stranger.crt"));
    let (output, report) = health(&["--kubelet-url", &url, "--kubelet-ca-file", &stranger]);
    let why = why_not(&report, "the kubelet's metrics");
    assert!(why.contains("shows a certificate that no trusted authority has signed"), "{output}");
    assert!(server.requests().is_empty(), "plegctl sent a request");
}

#[test]
fn skipped_certificate_check_is_reported_twice() {
    let server = Server::start("other-name", Clients::Any, document);
    let (output, report) = health(&["--kubelet-url", &server.url(), "--kubelet-insecure-tls"]);
    assert_eq!(outcome(&report, "kubelet metrics"), "ok", "{output}");
    assert!(output.stderr.contains("is not verified"), "{output}");
    assert!(why_not(&report, "the kubelet's identity").contains("is not verified"), "{output}");
}

#[test]
fn unusable_credentials_are_an_error() {
    let no_such = "/nonexistent/plegctl-test";
    let (server_key, text) = (pki("server.key"), file("README.md").display().to_string());
    for (arguments, why) in [
        (vec!["--kubelet-token-file", no_such], "cannot read `/nonexistent/plegctl-test`"),
        (vec!["--kubelet-url", "127.0.0.1:10250"], "is not an http or https URL"),
        (
            vec!["--kubelet-client-cert", text.as_str(), "--kubelet-client-key", server_key.as_str()],
            "contains no certificate in PEM form",
        ),
        (vec!["--kubelet-client-cert", text.as_str()], "--kubelet-client-key"),
        (vec!["--kubeconfig", text.as_str()], "--node"),
    ] {
        let output = Invocation::new(&[&["health", "-r", "sim:quiet"], &arguments[..]].concat()).run();
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(why), "{output}");
    }
}

#[test]
fn proxy_of_the_api_server_gives_all_three_documents() {
    let server = Server::start("server", Clients::Any, document);
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let (output, report) = on_node(&config, &[]);
    assert_eq!((output.code, &report["kubelet"]["healthz"]), (Some(0), &"ok".into()), "{output}");
    let mut paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    paths.sort();
    let proxy = "/api/v1/nodes/n1/proxy";
    // On a busy machine, plegctl also asks whether another page answers while the metrics are late.
    paths.retain(|path| *path != format!("{proxy}/metrics/probes"));
    assert_eq!(paths, ["configz", "healthz", "metrics"].map(|page| format!("{proxy}/{page}")), "{output}");
    assert!(output.stdout.contains("v1.34.2"), "{output}");
}

#[test]
fn removed_node_is_not_reported_as_unhealthy() {
    for (status, text, expected) in [
        (
            404,
            r#"{"kind":"Status","message":"nodes \"n1\" not found"}"#,
            "answers 404: nodes \"n1\" not found",
        ),
        (503, "error trying to reach service: dial tcp 10.0.0.9:10250: no route to host", "no route to host"),
        (403, r#"{"kind":"Status","message":"nodes \"n1\" is forbidden"}"#, "on nodes/proxy"),
    ] {
        let server = Server::start("server", Clients::Any, move |_| Reply::Answer(status, text.to_owned()));
        let config = kubeconfig(&server.url(), &authority(), "token: t");
        let (output, report) = on_node(&config, &[]);
        assert_eq!((output.code, &report["verdict"]), (Some(0), &"healthy".into()), "{output}");
        for what in ["the kubelet's metrics", "the kubelet's configz", "the kubelet's /healthz"] {
            assert!(why_not(&report, what).contains(expected), "{what}: {output}");
        }
    }
    // The report contains the kubelet's own message.
    let failing = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n";
    let server = Server::start("server", Clients::Any, |request| {
        if request.path.ends_with("/healthz") {
            Reply::Answer(500, failing.to_owned())
        } else {
            document(request)
        }
    });
    let config = kubeconfig(&server.url(), &authority(), "token: t");
    let (output, report) = on_node(&config, &[]);
    assert_eq!(report["primary"]["id"], "D32", "{output}");
}

#[test]
fn hung_credential_program_does_not_delay_the_probes() {
    let server = Server::start("server", Clients::Any, document);
    let config = kubeconfig(&server.url(), &authority(), "exec: {command: sleep, args: [\"1000\"]}");
    let (output, report) = on_node(&config, &["--budget", "3s"]);
    assert_eq!(output.code, Some(2), "{output}");
    assert_eq!(outcome(&report, "ListContainers"), "ok", "{output}");
    let why = why_not(&report, "the kubelet's metrics");
    assert!(why.contains("did not end within") || why.contains("was not found within"), "{output}");
}

#[test]
fn bundle_has_the_kubelets_configuration_without_secrets() {
    let server = Server::start("server", Clients::Any, document);
    let bundle = format!("{}/kubelet-{}.tar.gz", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let (output, _) = with_token(&server, &["--bundle", &bundle]);
    let listing = std::process::Command::new("tar").args(["-xzOf", &bundle]).output().unwrap();
    fs::remove_file(&bundle).unwrap();
    let text = String::from_utf8_lossy(&listing.stdout);
    assert!(text.contains("\"runtimeRequestTimeout\": \"3m30s\""), "{output}");
    assert!(!text.contains("hidden"), "{text}");
}
