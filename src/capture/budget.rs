//! How much work a capture may cause: what is unpacked and copied is charged to one budget, in proportion to its size, so
//! that a small file costs little however it was made.

use std::sync::atomic::{AtomicU64, Ordering};

/// What any capture may cost: bytes that are unpacked or copied.
const FREE: u64 = 1 << 30;

/// The same for each byte of it. A list that is told as 64 differences on top of each other, itself deflated to a
/// twentieth, costs 1 300 times its bytes, and an anonymised export reads everything twice.
const PER_BYTE: u64 = 4096;

/// The largest message that a small capture may hold.
const FREE_MESSAGE: u64 = 16 << 20;

/// What each byte of the capture adds to that. Lists deflate to a twentieth.
const MESSAGE_PER_BYTE: u64 = 64;

/// What is left of a budget.
#[derive(Debug)]
pub struct Budget {
    left: AtomicU64,
    /// How often something was refused.
    refusals: AtomicU64,
    /// The largest message.
    largest: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(0)
    }
}

impl Budget {
    /// For a capture of so many bytes.
    pub const fn of(bytes: u64) -> Self {
        Self {
            left: AtomicU64::new(FREE.saturating_add(bytes.saturating_mul(PER_BYTE))),
            refusals: AtomicU64::new(0),
            largest: FREE_MESSAGE.saturating_add(bytes.saturating_mul(MESSAGE_PER_BYTE)),
        }
    }

    /// Takes so many bytes of it; `None` if they are not there, which leaves nothing.
    pub fn spend(&self, bytes: usize) -> Option<()> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let left = |left: u64| Some(left.saturating_sub(bytes));
        let before = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        self.allow(before.is_ok_and(|before| before >= bytes))
    }

    /// Takes what a message of so many bytes costs; `None` if that is too much, or larger than a message may be.
    pub fn spend_on_message(&self, bytes: u64) -> Option<()> {
        self.allow(bytes <= self.largest)?;
        self.spend(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// Nothing, and a refusal is counted, unless something is allowed.
    pub fn allow(&self, is_allowed: bool) -> Option<()> {
        if !is_allowed {
            self.refusals.fetch_add(1, Ordering::Relaxed);
        }
        is_allowed.then_some(())
    }

    /// How large a message may be.
    pub fn largest_message(&self) -> usize {
        usize::try_from(self.largest).unwrap_or(usize::MAX)
    }

    /// How often something was refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_grows_with_the_file_and_ends() {
        let budget = Budget::of(1000);
        let all = usize::try_from(FREE + 1000 * PER_BYTE).unwrap();
        assert!(budget.spend(all - 1).is_some() && budget.refusals() == 0);
        assert!(budget.spend(2).is_none(), "there is one byte left");
        assert!(budget.spend(1).is_none(), "and then none");
        assert_eq!(budget.refusals(), 2);
    }

    #[test]
    fn message_of_a_small_file_is_small() {
        let budget = Budget::of(1000);
        assert!(budget.spend_on_message(FREE_MESSAGE + 1000 * MESSAGE_PER_BYTE).is_some());
        assert!(budget.spend_on_message(FREE_MESSAGE + 1000 * MESSAGE_PER_BYTE + 1).is_none());
    }
}
