//! Validates probes and lifecycle hooks.

use super::validator::{Validator, ViolationKind};
use crate::Check;
use crate::pod_field::PodField;
use plegctl_api_values::tree::Value;

use super::names;

/// Validates the probes and the lifecycle of one container.
pub fn validate(validator: &mut Validator, container: &PodField<'_>, spec: &PodField<'_>) {
    lifecycle(validator, &container.get("lifecycle"), spec);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe(validator, &container.get(name), name == "readinessProbe");
    }
}

fn probe(validator: &mut Validator, probe: &PodField<'_>, is_readiness: bool) {
    if !probe.is_set() {
        return;
    }
    handler(
        validator,
        Check::Probe,
        probe,
        &["exec", "httpGet", "tcpSocket", "grpc"],
        "a probe needs exec, httpGet, tcpSocket or grpc",
    );
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        let number = probe.get(name);
        if number.int() < 0 {
            validator.invalid(Check::Probe, &number, "must be greater than or equal to 0");
        }
    }
    let grace = probe.get("terminationGracePeriodSeconds");
    if grace.is_set() && (is_readiness || grace.int() <= 0) {
        let why = if is_readiness { "may not be set for readiness probes" } else { "must be greater than 0" };
        validator.invalid(Check::Probe, &grace, why);
    }
    let success = probe.get("successThreshold");
    if !is_readiness && success.int() != 1 {
        validator
            .invalid(Check::Probe, &success, "must be 1 for liveness and startup probes")
            .fix("remove successThreshold");
    }
}

fn lifecycle(validator: &mut Validator, lifecycle: &PodField<'_>, spec: &PodField<'_>) {
    for name in ["postStart", "preStop"] {
        let hook = lifecycle.get(name);
        if hook.is_set() {
            handler(
                validator,
                Check::OtherRule,
                &hook,
                &["exec", "httpGet", "tcpSocket", "sleep"],
                "a hook needs exec, httpGet, tcpSocket or sleep",
            );
            sleep(validator, &hook.get("sleep").get("seconds"), &hook.get("sleep"), spec);
        }
    }
    stop_signal(validator, &lifecycle.get("stopSignal"), spec);
}

/// Validates a sleep. Zero seconds are allowed only in releases that apply feature gates to files.
fn sleep(validator: &mut Validator, seconds: &PodField<'_>, action: &PodField<'_>, spec: &PodField<'_>) {
    if !action.is_set() {
        return;
    }
    let grace = spec.get("terminationGracePeriodSeconds").int();
    let lowest = i64::from(!validator.applies_feature_gates());
    if !(lowest..=grace).contains(&seconds.int()) {
        validator.invalid(
            Check::OtherRule,
            action,
            &format!("must be between {lowest} and the pod's grace period of {grace} seconds"),
        );
    }
}

/// Validates a stop signal. The kubelet validates this field although its feature gate `ContainerStopSignals` is off by
/// default in every known release.
fn stop_signal(validator: &mut Validator, signal: &PodField<'_>, spec: &PodField<'_>) {
    if !signal.is_set() {
        return;
    }
    let os = spec.get("os").get("name").str();
    if os.is_empty() {
        validator.forbidden(Check::OtherRule, signal, "may not be set unless spec.os.name is set");
    } else if os == "windows" {
        validator.one_of(Check::OtherRule, signal, &["SIGKILL", "SIGTERM"]);
    } else if !is_linux_signal(signal.str()) {
        validator.violation(
            Check::OtherRule,
            signal,
            ViolationKind::Unsupported,
            "must be a Linux signal such as SIGTERM",
        );
    }
}

fn is_linux_signal(name: &str) -> bool {
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

/// Validates that a probe or a hook has exactly one handler of these kinds, and the handler's fields. `missing` is the
/// message if it has none.
fn handler(validator: &mut Validator, check: Check, at: &PodField<'_>, kinds: &[&str], missing: &str) {
    let handlers = at.present(kinds);
    let Some(((kind, action), others)) = handlers.split_first() else {
        validator.required(check, at, missing);
        return;
    };
    for (_, other) in others {
        validator.forbidden(check, other, "may not have more than one handler");
    }
    match *kind {
        "exec" if action.get("command").is_empty() => {
            validator.required(check, &action.get("command"), "the command is required");
        }
        "httpGet" => http_get(validator, check, action),
        "tcpSocket" => port(validator, check, &action.get("port")),
        "grpc" => {
            let port = action.get("port");
            validator.problem(check, &port, names::port_number(port.int()));
        }
        _ => {}
    }
}

fn http_get(validator: &mut Validator, check: Check, action: &PodField<'_>) {
    validator.not_empty(check, &action.get("path"), "the path is required");
    port(validator, check, &action.get("port"));
    validator.one_of(check, &action.get("scheme"), &["HTTP", "HTTPS"]);
    for header in action.get("httpHeaders").items() {
        validator.text(check, &header.get("name"), names::header);
    }
}

/// Validates a port: a number, or the name of a port. A number in quotes is not a valid name.
fn port(validator: &mut Validator, check: Check, at: &PodField<'_>) {
    let is_name = matches!(at.node().map(|node| &node.value), Some(Value::Str(_)));
    let wrong = if is_name { names::port(at.str()) } else { names::port_number(at.int()) };
    let Some(wrong) = wrong else { return };
    validator.invalid(check, at, wrong);
    if at.str().parse::<u16>().is_ok() {
        validator.fix("write the number without quotes");
    }
}
