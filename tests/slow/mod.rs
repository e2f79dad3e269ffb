//! Tests that take long: thousands of mutated inputs, the memory for huge answers, two hundred kills, a browser. `make
//! slow` and CI run them.

mod browser;
mod exports;
#[path = "../../fuzz/mod.rs"]
mod fuzz;
mod kills;
mod many_pods;
mod memory;
mod page;
