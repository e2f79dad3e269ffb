//! Tests that plegctl refuses an argument that it cannot use, instead of doing something else, and says what to do.

use crate::support::captures::argument;
use crate::support::plegctl::plegctl;
use crate::support::socket::TempDir;

#[test]
fn selector_that_no_label_can_match_is_refused() {
    for selector in ["app=b=c", "app==b=c", "app!=b=c", "app in (a=b)", "app=b c"] {
        let output = plegctl(&["relist", "-r", "sim:quiet", "-l", selector]);
        assert_eq!(output.code, Some(2), "{selector}: {output}");
        assert!(output.stderr.contains("is not a condition on a label"), "{selector}: {output}");
    }
}

#[test]
fn pattern_that_no_name_can_match_is_refused() {
    for pattern in ["[", "web-[", "web-[a-", "[]a]", "web\\"] {
        let output = plegctl(&["relist", "-r", "sim:quiet", "--pod", pattern]);
        assert_eq!(output.code, Some(2), "{pattern}: {output}");
        assert!(output.stderr.contains("is not a complete pattern"), "{pattern}: {output}");
    }
}

#[test]
fn negative_duration_or_number_is_named_with_its_option() {
    for (arguments, why) in [
        (&["watch", "--until-slow", "-2s"][..], "'-2s' for '--until-slow <DUR>': it must be more than zero"),
        (&["relist", "--timeout", "-2s"], "'-2s' for '--timeout <DUR>': it must be more than zero"),
        (&["watch", "--for", "-q"], "'-q' for '--for <DUR>': "),
        (&["watch", "--count", "-1"], "'-1' for '--count <N>': it must be a whole number"),
        (&["top", "--count", "-3"], "'-3' for '--count <N>': it must be a whole number"),
        (&["sim", "fleet", "--nodes", "-1"], "'-1' for '--nodes <N>': it must be a whole number"),
        (
            &["capture", "report", "x", "--incident", "-1"],
            "'-1' for '--incident <N>': it must be a whole number",
        ),
        (&["record", "x", "--max-size", "-1"], "'-1' for '--max-size <SIZE>': "),
        (&["watch", "--metrics-listen", "-1"], "'-1' for '--metrics-listen <ADDR>': it is not ADDRESS:PORT"),
    ] {
        let output = plegctl(&[&["-r", "sim:quiet"], arguments].concat());
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.starts_with(&format!("error: invalid value {why}")), "{output}");
    }
}

#[test]
fn bundle_whose_name_promises_another_format_is_refused() {
    let folder = TempDir::new();
    for name in ["node.zip", "node.tar", "node.tar.xz"] {
        let file = folder.path().join(name);
        let output = plegctl(&["health", "-r", "sim:quiet", "--bundle", argument(&file)]);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains("a bundle is a .tar.gz file"), "{output}");
        assert!(!file.exists(), "{output}");
    }
}

#[test]
fn record_creates_no_directory_but_the_last_one() {
    let folder = TempDir::new();
    let missing = folder.path().join("missing");
    let output = plegctl(&["record", "-r", "sim:quiet", "--count", "1", argument(&missing.join("capture"))]);
    assert_eq!(output.code, Some(2), "{output}");
    let named = format!("error: there is no directory `{}`", missing.display());
    assert!(output.stderr.starts_with(&named) && output.stderr.contains("hint: "), "{output}");
    assert!(!missing.exists());
}

#[test]
fn missing_file_is_an_error_that_says_how_to_get_one() {
    for (arguments, hint) in [
        (&["health", "--from", "/none.json"][..], "hint: make one with `plegctl health --save FILE`"),
        (&["diff", "/none.json", "/none.json"], "hint: make one with `plegctl relist --save FILE`"),
        (&["stacks", "/none.txt"], "hint: without a SOURCE, "),
        (&["preflight", "--config", "/none.yaml"], "hint: the kubelet's flag --config names it"),
        (&["pods", "-r", "sim:quiet", "--manifests", "/none"], "hint: name a directory"),
    ] {
        let output = plegctl(arguments);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(hint), "{output}");
    }
}
