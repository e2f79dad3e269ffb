//! Formats scenarios as text, for `plegctl sim list` and `plegctl sim describe`.

use std::io::{self, Write};

use super::{Style, table};
use crate::report::escape::escaped;
use crate::report::plural;
use crate::sim::{EventDelivery, KubeletProcessState, Scenario};

/// The width of paragraphs.
const WIDTH: usize = 96;

/// Prints one line for each scenario.
pub fn list(scenarios: &[Scenario], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let rows = scenarios.iter().map(|scenario| {
        vec![format!("sim:{}", escaped(&scenario.name)), escaped(&scenario.title).into_owned()]
    });
    table::write(out, style, &["ENDPOINT", "WHAT IT IS"], rows)
}

/// Prints a scenario: what it teaches, what is wrong, what a kubelet would show, and commands to try.
pub fn describe(scenario: &Scenario, style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", escaped(&scenario.name), escaped(&scenario.title))?;
    writeln!(out)?;
    paragraph(&scenario.teaches, "", out)?;
    section("What is wrong", style, out)?;
    paragraph(&scenario.wrong, "  ", out)?;
    section("What a kubelet would show", style, out)?;
    paragraph(&scenario.kubelet, "  ", out)?;
    section("The node", style, out)?;
    paragraph(&node(scenario), "  ", out)?;
    if !scenario.attempts.is_empty() {
        section("Try", style, out)?;
        for command in &scenario.attempts {
            writeln!(out, "  {}", escaped(command))?;
        }
    }
    Ok(())
}

fn section(title: &str, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let (bold, plain) = if style.color { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
    writeln!(out, "\n{bold}{title}{plain}")
}

/// Prints text in lines of at most [`WIDTH`] columns.
fn paragraph(text: &str, indent: &str, out: &mut dyn Write) -> io::Result<()> {
    let text = escaped(text);
    let mut line = indent.to_owned();
    for word in text.split(' ') {
        let begun = line.len() > indent.len();
        if begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{line}")?;
            indent.clone_into(&mut line);
        } else if begun {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{line}")
}

/// Describes the simulated node: its runtime, event stream, pods and kubelet.
fn node(scenario: &Scenario) -> String {
    let runtime = &scenario.runtime;
    let events = match runtime.events {
        EventDelivery::Broadcast => "events for every reader",
        EventDelivery::Competing => "events that go to one reader each",
        EventDelivery::Unimplemented => "no event stream",
        EventDelivery::Ends => "an event stream that is switched off",
    };
    let pods: u64 = scenario.groups.iter().map(|group| u64::from(group.count)).sum();
    let kubelet = scenario.processes.as_ref().map_or("", |processes| match processes.kubelet {
        KubeletProcessState::Running => " A kubelet runs on it, with its metrics and its health check.",
        KubeletProcessState::Stopped => " Its kubelet is stopped.",
        KubeletProcessState::Dead => " Its kubelet is dead.",
    });
    format!(
        "{} {} with {events}; room for {}; seed {}.{kubelet}",
        runtime.family,
        runtime.version,
        plural(pods, "pod"),
        scenario.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { headers: true, color: false };

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        let mut out = Vec::new();
        paragraph("word ".repeat(40).trim_end(), "  ", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
    }

    #[test]
    fn every_built_in_scenario_describes_the_fault_and_commands_to_try() {
        for scenario in crate::sim::built_in().unwrap() {
            let mut out = Vec::new();
            describe(&scenario, PLAIN, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for title in ["What is wrong", "What a kubelet would show", "The node", "Try"] {
                assert!(text.contains(&format!("\n{title}\n  ")), "{title} in {text}");
            }
            assert!(
                text.contains(&format!("plegctl sim serve {}", scenario.name))
                    || text.contains(&format!("sim:{}", scenario.name))
            );
        }
    }

    #[test]
    fn the_list_has_one_line_for_each_scenario() {
        let mut out = Vec::new();
        list(&crate::sim::built_in().unwrap(), PLAIN, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 24);
        assert!(text.starts_with("ENDPOINT "), "{text}");
        assert!(text.contains("sim:quiet "), "{text}");
    }
}
