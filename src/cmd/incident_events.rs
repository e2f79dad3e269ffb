//! `record --events`: creates one Event on the Node when an incident has begun, and one when it is over.
//!
//! A separate thread sends at most 20 Events an hour, tries each three times, and counts what it could not send in a
//! metric.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::incident_delivery::{DeliveryCounts, deliver};
use super::incident_steps::{IncidentStep, IncidentSteps, PERIOD};
use crate::capture::entry::Incident;
use crate::capture::recording::RecordingView;
use crate::clock::{Clock, Mono, Wall};
use crate::fleet::error_text;
use crate::kubelet::http::WriteMethod;
use crate::kubelet::kubeconfig::{self, KubeconfigSources};
use crate::report::duration::elapsed;
use crate::report::escape::escaped;
use crate::report::json as json_text;
use crate::threads;

/// The maximum number of Events in an hour.
const MAX_EVENTS: usize = 20;

const HOUR: Duration = Duration::from_secs(3600);

/// The pauses between the attempts to send an Event.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// The time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of characters of a message.
const MAX_MESSAGE: usize = 1000;

/// Starts the thread that sends the Events of `node`.
pub fn start(node: String, view: RecordingView, clock: Arc<dyn Clock>) -> io::Result<Arc<DeliveryCounts>> {
    let counts = Arc::new(DeliveryCounts::default());
    let sent = Arc::clone(&counts);
    threads::run_event_loop("events", async move {
        let (mut steps, mut times) = (IncidentSteps::default(), VecDeque::new());
        loop {
            for (step, incident) in steps.due(&view.incidents()) {
                if !is_allowed(&mut times, clock.mono()) {
                    sent.add_limited();
                    continue;
                }
                // Each attempt sends the same name, so that the Event is created only once.
                let event = json_text::text(&event(&node, step, &incident, clock.wall())).unwrap_or_default();
                let event = Bytes::from(event);
                let outcome = deliver(&PAUSES, || send(event.clone())).await;
                sent.add("cannot create an Event", outcome);
            }
            tokio::time::sleep(PERIOD).await;
        }
    })?;
    Ok(counts)
}

/// Whether one more Event may be sent now. `times` are the times of the Events of the last hour.
fn is_allowed(times: &mut VecDeque<Mono>, now: Mono) -> bool {
    times.retain(|time| now.since(*time) < HOUR);
    let is_allowed = times.len() < MAX_EVENTS;
    if is_allowed {
        times.push_back(now);
    }
    is_allowed
}

/// Sends an Event once.
async fn send(body: Bytes) -> Result<(), String> {
    // The token of a pod changes every hour, so it is read each time.
    let sources = KubeconfigSources::of_environment(None);
    let cluster = kubeconfig::cluster(&sources, None, TIMEOUT).map_err(|why| why.to_string())?;
    let url = format!("{}/api/v1/namespaces/default/events", cluster.server);
    let (client, body) = (&cluster.client, body.into());
    let answer = client.write(WriteMethod::Post, &url, "application/json", body, TIMEOUT).await;
    let answer = answer.map_err(|why| error_text(&why))?;
    // 409: an attempt before has created it.
    if [200, 201, 202, 409].contains(&answer.status) {
        return Ok(());
    }
    answer.bytes(&url).map(drop).map_err(|why| error_text(&why))
}

/// Returns the Event. Like the kubelet, it names the node as its own UID, so that `kubectl describe node` shows it.
fn event(node: &str, step: IncidentStep, incident: &Incident, now: Wall) -> Value {
    let number = incident.number;
    let about = escaped(if incident.summary.is_empty() { &incident.why } else { &incident.summary });
    let (word, reason, kind, message) = match step {
        IncidentStep::Begun => {
            // The summary begins with the verdict.
            let state = if incident.summary.is_empty() { "not diagnosed yet: " } else { "" };
            ("begun", "PLEGIncidentBegun", "Warning", format!("incident {number}: {state}{about}"))
        }
        IncidentStep::Ended => {
            let lasted = incident.duration().map(|lasted| format!(" after {}", elapsed(lasted)));
            let lasted = lasted.unwrap_or_default();
            ("ended", "PLEGIncidentEnded", "Normal", format!("incident {number} is over{lasted}: {about}"))
        }
    };
    let now = now.to_string();
    let now = format!("{}Z", now.get(..19).unwrap_or_default());
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "default", "name": format!("{node}.plegctl-{:x}-{word}", incident.from)},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node},
        "reason": reason,
        "message": message.chars().take(MAX_MESSAGE).collect::<String>(),
        "type": kind,
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": "plegctl", "host": node},
        "reportingComponent": "plegctl",
        "reportingInstance": node,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_names_the_node_and_what_the_diagnosis_found() {
        let incident = Incident {
            number: 3,
            from: 1,
            to: 62_000_000_001,
            verdict: "unhealthy".to_owned(),
            summary: format!("UNHEALTHY: {}", "s".repeat(5000)),
            ..Incident::default()
        };
        let begun = event("n1", IncidentStep::Begun, &incident, Wall::from_nanos(1_500_000_000));
        assert_eq!((&begun["reason"], &begun["type"]), (&"PLEGIncidentBegun".into(), &"Warning".into()));
        assert_eq!(begun["involvedObject"]["name"], "n1");
        assert_eq!(begun["firstTimestamp"], "1970-01-01T00:00:01Z");
        let message = begun["message"].as_str().unwrap();
        assert!(
            message.starts_with("incident 3: UNHEALTHY: sss") && message.len() == MAX_MESSAGE,
            "{message}"
        );
        let ended = event("n1", IncidentStep::Ended, &incident, Wall::from_nanos(0));
        let message = ended["message"].as_str().unwrap();
        assert!(message.starts_with("incident 3 is over after 62s: UNHEALTHY: s"), "{ended}");
        let unjudged =
            Incident { verdict: String::new(), summary: String::new(), why: "w".into(), ..incident };
        let begun = event("n1", IncidentStep::Begun, &unjudged, Wall::from_nanos(0));
        assert_eq!(begun["message"], "incident 3: not diagnosed yet: w");
        assert_ne!(begun["metadata"]["name"], ended["metadata"]["name"]);
    }

    #[test]
    fn message_of_an_event_has_no_character_that_a_terminal_interprets() {
        let hostile = "D01 a\u{1b}[2J\u{7}\u{202e}b\r\nc".to_owned();
        let diagnosed = Incident { summary: hostile.clone(), ..Incident::default() };
        let unjudged = Incident { why: hostile, ..Incident::default() };
        for incident in [diagnosed, unjudged] {
            for step in [IncidentStep::Begun, IncidentStep::Ended] {
                let event = event("n1", step, &incident, Wall::from_nanos(0));
                let message = event["message"].as_str().unwrap();
                assert!(message.ends_with(r"D01 a\u{1b}[2J\u{7}\u{202e}b\r\nc"), "{message:?}");
            }
        }
    }

    #[test]
    fn twenty_events_are_sent_in_an_hour() {
        let mut times = VecDeque::new();
        let second = |second| Mono::default().plus(Duration::from_secs(second));
        let allowed = (0..100).filter(|at| is_allowed(&mut times, second(*at))).count();
        assert_eq!(allowed, MAX_EVENTS);
        assert!(is_allowed(&mut times, second(3601)));
    }
}
