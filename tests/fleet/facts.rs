//! Tests of `plegctl health --node NAME --token-file FILE`: what a recorder measured is judged again on the laptop, and a recorder
//! that gives no usable facts is shown as without a token.

use serde_json::{Value, json};

use super::api::{Reply, Request, Server};
use super::exports::{cluster, forwarded, recorder_of, run, token_file};
use super::remote::verdict;
use crate::support::captures::{CaptureDir, argument};
use crate::support::plegctl::Output;

const WITH_FACTS: &str = "verdict?facts=true";
const PLAIN: &str = "verdict?o=json";

/// Returns the answer of a running recorder to the request for facts, while the runtime has this fault.
fn recorded(scenario: &str, rule: &str) -> Value {
    let place = CaptureDir::make();
    let (recorder, address) = recorder_of(&place, scenario, rule);
    let token = std::fs::read_to_string(token_file(&place)).unwrap();
    let request = Request { token: Some(token), ..Request::default() };
    let Reply::Bytes(200, answer) = forwarded(&address, WITH_FACTS, &request) else {
        panic!("it is refused")
    };
    recorder.signal("TERM");
    assert_eq!(recorder.wait().code, Some(0));
    serde_json::from_slice(&answer).unwrap()
}

/// Returns a cluster whose recorder gives this answer to the request for facts, and the scripted verdict without facts.
fn with_facts(answer: Reply) -> Server {
    cluster(move |page, _| match page {
        WITH_FACTS => answer.clone(),
        PLAIN => Reply::ok(verdict().to_string()),
        _ => Reply::Answer(404, String::new()),
    })
}

fn health(server: &Server, arguments: &[&str]) -> (Output, Value) {
    let place = CaptureDir::make();
    let token = token_file(&place);
    let known = ["health", "-o", "json", "--token-file", argument(&token)];
    let output = run(server, &[&known, arguments].concat());
    let report = serde_json::from_str(&output.stdout).unwrap_or_else(|why| panic!("{why}: {output}"));
    (output, report)
}

/// Returns why the report has no facts of the recorder.
fn no_facts(report: &Value) -> Option<&str> {
    let skipped = report["notChecked"].as_array().unwrap();
    skipped.iter().find(|skipped| skipped["what"] == "the facts of the recorder's diagnosis")?["why"].as_str()
}

#[test]
fn facts_of_a_recorder_give_the_same_verdict_on_the_laptop_with_all_findings() {
    for (scenario, rule, exit) in [("sim:hung-container", "D01", 0), ("sim:hung-list", "D02", 1)] {
        let answer = recorded(scenario, rule);
        let server = with_facts(Reply::ok(answer.to_string()));
        let (output, report) = health(&server, &[]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(exit), ""), "{output}");
        assert_eq!((&report["verdict"], &report["summary"]), (&answer["verdict"], &answer["summary"]));
        assert_eq!(report["primary"]["id"], rule, "{output}");
        assert_eq!(report["primary"], report["findings"][0], "{output}");
        assert_eq!(report["source"]["pod"], "plegctl/plegctl-x", "{output}");
        // Only what was measured has the calls; the recorder's verdict has none.
        assert!(
            report["probes"].as_array().unwrap().iter().any(|probe| probe["name"] == "Version"),
            "{output}"
        );
        assert_eq!(no_facts(&report), None, "{output}");
        let steps = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|finding| finding["steps"].as_array().unwrap());
        assert!(
            steps.clone().count() > 0 && steps.clone().all(|step| step["changesState"] == false),
            "{output}"
        );
        assert_eq!(report["keep"], json!([]), "{output}");
    }
}

#[test]
fn words_of_the_recorder_that_its_facts_do_not_give_are_only_in_a_note() {
    let answer = recorded("sim:hung-container", "D01");
    let mut other_verdict = answer.clone();
    other_verdict["verdict"] = "healthy".into();
    other_verdict["summary"] = "all is \u{1b}[31mwell".into();
    other_verdict["verdictFacts"]["reported"] = "healthy".into();
    let mut other_words = answer.clone();
    other_words["primary"]["title"] = "nothing to see".into();
    let mut list_fails = answer.clone();
    list_fails["verdictFacts"]["relists"] = "fail".into();
    for (changed, verdict, note) in [
        (other_verdict, "degraded", "measured; it said: healthy: all is"),
        (other_words, "degraded", "measured; its report has other words"),
        (list_fails, "unhealthy", "measured; it said: degraded: "),
    ] {
        let (output, report) = health(&with_facts(Reply::ok(changed.to_string())), &[]);
        assert_eq!(report["verdict"], verdict, "{output}");
        assert_eq!(report["primary"]["title"], answer["primary"]["title"], "{output}");
        assert!(output.stderr.contains("judged again from what plegctl "), "{output}");
        assert!(output.stderr.contains(note) && !output.stderr.contains('\u{1b}'), "{output}");
    }
}

#[test]
fn facts_that_cannot_be_read_leave_the_verdict_of_the_recorder() {
    let mut answer = recorded("sim:hung-container", "D01");
    answer["measured"] = "MEASURED".into();
    let with_garbage = |garbage: &str| {
        let text = answer.to_string().replace("\"MEASURED\"", garbage);
        health(&with_facts(Reply::ok(text)), &[])
    };
    let deep = "[".repeat(300_000) + &"]".repeat(300_000);
    let later = r#"{"plegctl": "9.0.0", "node": {"host": {"waits": [{"reason": "KR99"}]}}}"#;
    for garbage in [r#"{"node": 7}"#, r#""text""#, "[]", "{}", later, &deep] {
        let (output, report) = with_garbage(garbage);
        assert_eq!((&report["verdict"], &report["summary"]), (&answer["verdict"], &answer["summary"]));
        assert!(output.stderr.contains("its facts cannot be read"), "{output}");
    }
    // An answer that needs too much memory is not read at all.
    let (output, report) = with_garbage(&format!("[{}0]", "{},".repeat(600_000)));
    assert_eq!(report["summary"], verdict()["summary"], "{output}");
    assert!(no_facts(&report).is_some(), "{output}");
}

#[test]
fn recorder_without_usable_facts_is_shown_as_without_a_token_and_the_report_says_why() {
    let large = format!("{{\"kind\":\"{}\"}}", "x".repeat(7 << 20));
    for (answer, why) in [
        // A release without the parameter, and one without a token file.
        (
            Reply::Answer(400, "/verdict takes only o=json and o=text\n".to_owned()),
            "answers 400: /verdict takes only o=json",
        ),
        (
            Reply::Answer(404, "this recorder gives no captures\n".to_owned()),
            "answers 404: this recorder gives",
        ),
        (
            Reply::Answer(403, "the recorder has another token\n".to_owned()),
            "answers 403: the recorder has another token",
        ),
        (
            Reply::Answer(403, r#"{"message":"pods/proxy is forbidden"}"#.to_owned()),
            "pods/proxy is forbidden",
        ),
        (Reply::ok(large), "more than 6 MiB"),
        (Reply::ok("<html>"), "is no verdict"),
        (Reply::Cut("{\"kind\":"), "ended the connection"),
        (Reply::Redirect("https://elsewhere.example/"), "does not follow redirects"),
    ] {
        let server = with_facts(answer);
        let (output, report) = health(&server, &[]);
        assert_eq!((output.code, &report["summary"]), (Some(1), &verdict()["summary"]), "{output}");
        assert_eq!(report["source"]["kind"], "recorder", "{output}");
        assert!(no_facts(&report).unwrap().contains(why), "{why}: {output}");
        let pages = server.requests();
        let with_token = pages.iter().filter(|request| request.token.is_some());
        assert!(
            with_token.clone().count() == 1
                && with_token.clone().all(|request| request.path.ends_with(WITH_FACTS))
        );
    }
    // The recorder says itself why it has none.
    let mut left_out = verdict();
    left_out["noFacts"] = "they are too large for the recorder's memory".into();
    let (output, report) = health(&with_facts(Reply::ok(left_out.to_string())), &[]);
    assert_eq!(no_facts(&report), Some("they are too large for the recorder's memory"), "{output}");
}

#[test]
fn recorder_in_another_namespace_does_not_get_the_token() {
    let server = with_facts(Reply::ok("{}"));
    let (output, report) = health(&server, &["-n", "other"]);
    assert_eq!(report["summary"], verdict()["summary"], "{output}");
    assert!(server.requests().iter().all(|request| request.token.is_none()), "{output}");
}
