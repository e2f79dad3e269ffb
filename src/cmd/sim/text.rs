//! Formats scenarios as text, for `plegctl sim list` and `plegctl sim describe`.

use std::io;

use crate::cmd::render::page::Page;
use crate::cmd::render::table::{self, Column};
use crate::cmd::render::words::wrapped;
use crate::report::plural;
use crate::sim::{EventDelivery, KubeletProcessState, Scenario};

/// The width of paragraphs.
const WIDTH: usize = 96;

/// Prints one line for each scenario.
pub fn list(scenarios: &[Scenario], out: &mut Page<'_>) -> io::Result<()> {
    let columns = vec![
        Column::new("ENDPOINT", |scenario: &Scenario| format!("sim:{}", scenario.name)),
        Column::new("WHAT IT IS", |scenario: &Scenario| scenario.title.clone()),
    ];
    table::write(out, columns, scenarios)
}

/// Prints a scenario: what it teaches, what is wrong, what a kubelet would show, and commands to try.
pub fn describe(scenario: &Scenario, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out, "{}: {}", scenario.name, scenario.title)?;
    writeln!(out)?;
    paragraph(&scenario.teaches, "", out)?;
    section("What is wrong", out)?;
    paragraph(&scenario.wrong, "  ", out)?;
    section("What a kubelet would show", out)?;
    paragraph(&scenario.kubelet, "  ", out)?;
    section("The node", out)?;
    paragraph(&node(scenario), "  ", out)?;
    if !scenario.attempts.is_empty() {
        section("Try", out)?;
        for command in &scenario.attempts {
            writeln!(out, "  {command}")?;
        }
    }
    Ok(())
}

fn section(title: &str, out: &mut Page<'_>) -> io::Result<()> {
    writeln!(out)?;
    out.colored("1", title)
}

/// Prints text in lines of at most [`WIDTH`] columns.
fn paragraph(text: &str, indent: &str, out: &mut Page<'_>) -> io::Result<()> {
    wrapped(&format!("{indent}{text}"), WIDTH, indent).iter().try_for_each(|line| writeln!(out, "{line}"))
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
    use crate::cmd::render::PLAIN;
    use crate::cmd::render::page::tests::printed;

    #[test]
    fn every_built_in_scenario_describes_the_fault_and_commands_to_try() {
        for scenario in crate::sim::built_in().unwrap() {
            let text = printed(PLAIN, |page| describe(&scenario, page));
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
        let scenarios = crate::sim::built_in().unwrap();
        let text = printed(PLAIN, |page| list(&scenarios, page));
        assert_eq!(text.lines().count(), scenarios.len() + 1);
        assert!(text.starts_with("ENDPOINT "), "{text}");
        assert!(text.contains("sim:quiet "), "{text}");
    }
}
