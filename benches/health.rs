//! Measures `health` on healthy nodes of 60 and of 250 pods, compared with `relist --inspect all`, which makes the same calls:
//! in time and in processor time, alone and beside many other processes.

pub mod support;
#[path = "support/target.rs"]
pub mod target;

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Parser;
use rustix::io::{FdFlags, fcntl_setfd};
use support::process::{PLEGCTL, processor_time_of_children, wall};
use support::{alone, figure, heading, in_turn, milliseconds, ratio};
use target::{Options, Target};

/// The number of measured runs of each command.
const TURNS: u16 = 21;

/// The numbers of pods of the nodes.
const PODS: [usize; 2] = [60, 250];

#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The number of other processes
    #[arg(long, default_value = "5000")]
    processes: usize,
    /// The number of descriptors of each of them
    #[arg(long, default_value = "20")]
    descriptors: usize,
}

fn main() {
    let Arguments { options, processes, descriptors } = Arguments::parse();
    for options in options.with_sizes(PODS) {
        let Some(node) = Target::real(&options) else { break };
        compare(&node, "");
        let others = OtherProcesses::start(processes, descriptors).expect("processes can be started");
        compare(
            &node,
            &format!(", beside {processes} processes with {} descriptors", processes * descriptors),
        );
        drop(others);
    }
    let simulated = Target::simulated("quiet");
    heading(&format!("plegctl health, whole process, {}", simulated.name), "health");
    let endpoint = simulated.endpoint();
    let took = alone(TURNS.into(), || wall(PLEGCTL, &["health", "-r", &endpoint]));
    figure("plegctl health", &milliseconds(took.median()));
}

/// Compares both commands.
fn compare(target: &Target, beside: &str) {
    heading(&format!("plegctl health, whole process, {}{beside}", target.name), "health");
    let endpoint = target.endpoint();
    let health = || wall(PLEGCTL, &["health", "-r", &endpoint]);
    let relist = || wall(PLEGCTL, &["relist", "--inspect", "all", "-r", &endpoint]);
    let (time, of) = in_turn(TURNS.into(), health, relist);
    ratio("health", &time, "relist --inspect all", &of);
    let processor_time = |run: &dyn Fn() -> Duration| {
        let before = processor_time_of_children();
        for _ in 0..TURNS {
            run();
        }
        processor_time_of_children().saturating_sub(before) / u32::from(TURNS)
    };
    let (time, of) = (processor_time(&health), processor_time(&relist));
    figure("health, processor time", &milliseconds(time));
    figure("relist --inspect all, processor time", &milliseconds(of));
    figure("  ratio", &format!("{:.2}", time.as_secs_f64() / of.as_secs_f64()));
}

/// Processes that do nothing. They end when this is dropped.
struct OtherProcesses(Vec<Child>);

impl OtherProcesses {
    /// Starts them. They inherit all but three of their descriptors from this process.
    fn start(processes: usize, descriptors: usize) -> io::Result<Self> {
        let inherited: io::Result<Vec<_>> = (3..descriptors)
            .map(|_| {
                let file = std::fs::File::open("/dev/null")?;
                fcntl_setfd(&file, FdFlags::empty())?;
                Ok(file)
            })
            .collect();
        let inherited = inherited?;
        let mut started = Self(Vec::with_capacity(processes));
        for _ in 0..processes {
            let mut command = Command::new("sleep");
            command.arg("3600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            started.0.push(command.spawn()?);
        }
        drop(inherited);
        Ok(started)
    }
}

impl Drop for OtherProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
