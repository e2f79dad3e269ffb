//! Tests of `static-pods lint` with bad input, which gives a finding or a clear error, and no escape sequence reaches
//! the terminal.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::process::Command;

use super::{GOOD, directory, ids, lint, report};
use crate::support::socket::TempDir;

/// Lints one file; returns its verdict and the ids of its findings.
fn only_file(bytes: &[u8]) -> (String, Vec<String>) {
    let directory = TempDir::new();
    fs::write(directory.path().join("a.yaml"), bytes).unwrap();
    let output = lint(directory.path(), &["-o", "json", "--no-cri"]);
    assert!(matches!(output.code, Some(0 | 1)), "{output}");
    let report = report(&output);
    let file = &report["files"][0];
    let ids = ids(&file["findings"]).into_iter().map(str::to_owned).collect();
    lint(directory.path(), &["--no-cri"]);
    (file["verdict"].as_str().unwrap().to_owned(), ids)
}

fn assert_rejected(bytes: &[u8], id: &str) {
    let (verdict, ids) = only_file(bytes);
    assert_eq!(verdict, "rejected", "{ids:?}");
    assert!(ids.iter().any(|found| found == id), "{ids:?} without {id}");
}

#[test]
fn binary_files_nul_bytes_and_bare_utf16_are_refused_with_a_reason() {
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_rejected(&binary, "SP011");
    assert_rejected(format!("{GOOD}\0").as_bytes(), "SP034");
    let utf16: Vec<u8> = GOOD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_rejected(&utf16, "SP034");
}

#[test]
fn file_of_eleven_mebibytes_is_rejected_without_reading_it() {
    let mut large = GOOD.as_bytes().to_vec();
    large.resize(11 << 20, b'#');
    assert_rejected(&large, "SP018");
}

/// `/proc/kmsg` has no end, so a reader waits for the kernel's next message.
#[test]
fn link_to_a_kernel_file_is_reported_and_not_read() {
    let directory = directory(&[("web.yaml", GOOD)]);
    let endless =
        ["/proc/kmsg", "/proc/version"].into_iter().find(|path| fs::metadata(path).is_ok()).unwrap();
    symlink(endless, directory.path().join("a.yaml")).unwrap();
    let output = lint(directory.path(), &["-o", "json", "--no-cri"]);
    assert_eq!(output.code, Some(1), "{output}");
    let report = report(&output);
    let file = &report["files"][0];
    assert_eq!(file["verdict"], "notJudged", "{report}");
    assert_eq!(ids(&file["findings"]), ["SP016"], "{report}");
    assert!(file["findings"][0]["message"].as_str().unwrap().contains("blocks the kubelet's file source"));
    assert_eq!(report["files"][1]["verdict"], "loaded", "{report}");
}

#[test]
fn alias_bomb_is_rejected() {
    let levels = (1..12).map(|level| {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        format!("a{level}: &a{level} [{aliases}]")
    });
    let ground = "a0: &a0 [x, x, x, x, x, x, x, x, x]".to_owned();
    let bomb: Vec<String> = std::iter::once(ground).chain(levels).collect();
    assert_rejected(bomb.join("\n").as_bytes(), "SP033");
}

#[test]
fn ten_thousand_levels_of_nesting_do_not_crash() {
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let (verdict, _) = only_file(format!("{GOOD}  x: {deep}\n").as_bytes());
    assert!(["loaded", "rejected"].contains(&verdict.as_str()));
    let maps = "{\"a\":".repeat(10_001) + "1" + &"}".repeat(10_001);
    assert_eq!(only_file(maps.as_bytes()).0, "rejected");
}

#[test]
fn fifo_is_reported_and_never_opened() {
    let directory = directory(&[("a.yaml", GOOD)]);
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // If plegctl opened the FIFO, the run would not end, because nothing writes to it.
    let output = lint(directory.path(), &["-o", "json", "--no-cri"]);
    let read = report(&output);
    assert_eq!(read["files"][1]["verdict"], "ignored", "{output}");
    assert_eq!(ids(&read["files"][1]["findings"]), ["SP016"]);
    let alone = lint(&fifo, &["-o", "json", "--no-cri"]);
    assert_eq!(ids(&report(&alone)["files"][0]["findings"]), ["SP002"], "{alone}");
}

#[test]
fn dangling_links_and_sockets_are_skipped_and_reported() {
    let directory = TempDir::new();
    symlink("/nowhere/at/all", directory.path().join("link.yaml")).unwrap();
    let _listener = UnixListener::bind(directory.path().join("socket")).unwrap();
    let output = lint(directory.path(), &["-o", "json", "--no-cri"]);
    let report = report(&output);
    assert_eq!(ids(&report["files"][0]["findings"]), ["SP014"], "{output}");
    assert_eq!(ids(&report["files"][1]["findings"]), ["SP017"], "{output}");
}

#[test]
fn escape_sequences_in_names_and_values_never_reach_the_terminal() {
    let name = std::ffi::OsStr::from_bytes(b"a\x1b]0;gone\x07\xff\n.yaml");
    let bad = GOOD.replace("app:1.0", "\"\\e[2J\\a\"\n    \"co\\e[31mmand\": x\n    \"x\\nfix: y\": 1");
    for text in [bad.as_str(), "\u{9b}2J: [", GOOD] {
        let directory = TempDir::new();
        fs::write(directory.path().join(name), text).unwrap();
        for format in ["table", "github"] {
            let output = lint(directory.path(), &["-o", format, "--no-cri", "-vv"]);
            assert!(!output.stdout.contains("\nfix: y"), "{output}");
        }
        report(&lint(directory.path(), &["-o", "json", "--no-cri"]));
    }
}

/// The kubelet's own message prints the whole object; plegctl's message omits its data.
#[test]
fn rejection_of_another_kind_does_not_print_its_data() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: t0p}\n";
    let directory = directory(&[("secret.yaml", secret)]);
    for output in [lint(directory.path(), &["-o", "json", "--no-cri"]), lint(directory.path(), &["--no-cri"])]
    {
        assert_eq!(output.code, Some(1), "{output}");
        assert!(!output.stdout.contains("(the object itself)"), "{output}");
        assert!(
            output.stdout.contains("invalid pod: a dump of this Secret follows, its data included"),
            "{output}"
        );
    }
    let report = report(&lint(directory.path(), &["-o", "json", "--no-cri"]));
    let file = &report["files"][0];
    assert_eq!((&file["verdict"], ids(&file["findings"])), (&"rejected".into(), vec!["SP050"]), "{report}");
}
