//! Tests that compare the findings with real kubelets and with the settings of distributions.

use super::*;

mod public;
pub mod recorded;
