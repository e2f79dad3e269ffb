//! Probes and lifecycle hooks.

use super::judge::{Judge, Objection};
use crate::manifests::Check;
use crate::manifests::place::Place;
use crate::manifests::tree::Value;

use super::names;

/// Judges the probes and the lifecycle of one container.
pub fn validate(judge: &mut Judge, container: &Place<'_>, spec: &Place<'_>) {
    lifecycle(judge, &container.get("lifecycle"), spec);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe(judge, &container.get(name), name == "readinessProbe");
    }
}

fn probe(judge: &mut Judge, probe: &Place<'_>, readiness: bool) {
    if !probe.is_set() {
        return;
    }
    handler(
        judge,
        Check::Probe,
        probe,
        &["exec", "httpGet", "tcpSocket", "grpc"],
        "a probe needs one of exec, httpGet, tcpSocket and grpc",
    );
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        let number = probe.get(name);
        if number.int() < 0 {
            judge.invalid(Check::Probe, &number, "must be greater than or equal to 0");
        }
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.is_set() && (readiness || grace.int() <= 0) {
        let why = if readiness { "may not be set for readiness probes" } else { "must be greater than 0" };
        judge.invalid(Check::Probe, &grace, why);
    }
    let success = probe.get("successThreshold");
    if !readiness && success.int() != 1 {
        judge
            .invalid(Check::Probe, &success, "must be 1 for liveness and startup probes")
            .fix("remove successThreshold");
    }
}

fn lifecycle(judge: &mut Judge, lifecycle: &Place<'_>, spec: &Place<'_>) {
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.get(name);
        if hook.is_set() {
            handler(
                judge,
                Check::OtherRule,
                &hook,
                &["exec", "httpGet", "tcpSocket", "sleep"],
                "a hook needs one of exec, httpGet, tcpSocket and sleep",
            );
            sleep(judge, &hook.get("sleep").get("seconds"), &hook.get("sleep"), spec);
        }
    }
    stop_signal(judge, &lifecycle.get("stopSignal"), spec);
}

/// A sleep of zero is one of the relaxations.
fn sleep(judge: &mut Judge, seconds: &Place<'_>, action: &Place<'_>, spec: &Place<'_>) {
    if !action.is_set() {
        return;
    }
    let grace = spec.get("terminationGracePeriodSeconds").int();
    let lowest = i64::from(!judge.relaxed());
    if !(lowest..=grace).contains(&seconds.int()) {
        judge.invalid(
            Check::OtherRule,
            action,
            &format!("must be between {lowest} and the pod's grace period of {grace} seconds"),
        );
    }
}

/// `ContainerStopSignals` is closed by default in every release so far, but the field is validated.
fn stop_signal(judge: &mut Judge, signal: &Place<'_>, spec: &Place<'_>) {
    if !signal.is_set() {
        return;
    }
    let os = spec.get("os").get("name").str();
    if os.is_empty() {
        judge.forbidden(Check::OtherRule, signal, "may not be set unless spec.os.name is set");
    } else if os == "windows" {
        judge.one_of(Check::OtherRule, signal, &["SIGKILL", "SIGTERM"]);
    } else if !linux_signal(signal.str()) {
        judge.object(Check::OtherRule, signal, Objection::Unsupported, "must be a Linux signal like SIGTERM");
    }
}

fn linux_signal(name: &str) -> bool {
    const NAMES: [&str; 35] = [
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL",
        "PIPE", "POLL", "PROF", "PWR", "QUIT", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP",
        "TTIN", "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ", "RTMIN",
    ];
    let Some(short) = name.strip_prefix("SIG") else { return false };
    let offset = |prefix: &str, highest: u8| {
        short
            .strip_prefix(prefix)
            .and_then(|rest| rest.parse::<u8>().ok())
            .is_some_and(|n| (1..=highest).contains(&n))
    };
    NAMES.contains(&short) || short == "RTMAX" || offset("RTMIN+", 15) || offset("RTMAX-", 14)
}

fn handler(judge: &mut Judge, check: Check, at: &Place<'_>, kinds: &[&str], none: &str) {
    let given: Vec<&str> = kinds.iter().filter(|kind| at.get(kind).is_set()).copied().collect();
    let Some((first, others)) = given.split_first() else {
        judge.required(check, at, none);
        return;
    };
    for other in others {
        judge.forbidden(check, &at.get(other), "may not have more than one handler");
    }
    let action = at.get(first);
    match *first {
        "exec" if action.get("command").is_empty() => {
            judge.required(check, &action.get("command"), "the command is required");
        }
        "httpGet" => http_get(judge, check, &action),
        "tcpSocket" => port(judge, check, &action.get("port")),
        "grpc" => {
            if let Some(wrong) = names::port_number(action.get("port").int()) {
                judge.invalid(check, &action.get("port"), wrong);
            }
        }
        _ => {}
    }
}

fn http_get(judge: &mut Judge, check: Check, action: &Place<'_>) {
    if action.get("path").is_empty() {
        judge.required(check, &action.get("path"), "the path is required");
    }
    port(judge, check, &action.get("port"));
    judge.one_of(check, &action.get("scheme"), &["HTTP", "HTTPS"]);
    for header in action.get("httpHeaders").items() {
        if let Some(wrong) = names::header(header.get("name").str()) {
            judge.invalid(check, &header.get("name"), wrong);
        }
    }
}

/// A number, or the name of a port; a number in quotes is neither.
fn port(judge: &mut Judge, check: Check, at: &Place<'_>) {
    let text = matches!(at.node().map(|node| &node.value), Some(Value::Str(_)));
    let wrong = if text { names::port(at.str()) } else { names::port_number(at.int()) };
    let Some(wrong) = wrong else { return };
    judge.invalid(check, at, wrong);
    if at.str().parse::<u16>().is_ok() {
        judge.fix("write the number without quotes");
    }
}
