//! Reproduces the sort of Go's `slices` package (`pdqsort`) comparison by comparison.
//!
//! The kubelet compares sandboxes by attempt if both have metadata, and otherwise by creation time. With a sandbox
//! without metadata in the list, this comparison is not a consistent order, so the result depends on which pairs are
//! compared. Only that list needs this module; for any consistent order Rust's own sort gives the same result.

/// Lists up to this length use insertion sort (`maxInsertion`).
const INSERTION_MAX: usize = 12;
/// From this length on, the pivot is the median of nine items (`shortestNinther`).
const NINTHER_MIN: usize = 50;
/// From this length on, a nearly sorted list is repaired by shifting items (`shortestShifting`).
const SHIFTING_MIN: usize = 50;
/// How many pairs may be out of order in a nearly sorted list (`maxSteps`).
const MAX_STEPS: usize = 5;
/// The number of swaps in choosing a pivot that shows that the list is in reverse order (`maxSwaps`).
const MAX_SWAPS: usize = 12;

/// Sorts as Go does. `precedes` says whether its first argument comes before the second; it need not be a
/// consistent order.
pub(super) fn go_sort<T>(items: &mut [T], precedes: impl Fn(&T, &T) -> bool) {
    let length = items.len();
    let limit = usize::BITS - length.leading_zeros();
    Sort { items, precedes }.range(0, length, limit);
}

struct Sort<'a, T, P> {
    items: &'a mut [T],
    precedes: P,
}

/// What choosing a pivot shows about the order of the items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Increasing,
    Decreasing,
    Unknown,
}

impl<T, P: Fn(&T, &T) -> bool> Sort<'_, T, P> {
    fn less(&self, one: usize, other: usize) -> bool {
        match (self.items.get(one), self.items.get(other)) {
            (Some(one), Some(other)) => (self.precedes)(one, other),
            _ => false,
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        if one.max(other) < self.items.len() {
            self.items.swap(one, other);
        }
    }

    fn range(&mut self, mut start: usize, mut end: usize, mut limit: u32) {
        let (mut balanced, mut partitioned) = (true, true);
        loop {
            let length = end.saturating_sub(start);
            if length <= INSERTION_MAX {
                return self.insertion_sort(start, end);
            }
            if limit == 0 {
                return self.heap_sort(start, end);
            }
            if !balanced {
                self.break_patterns(start, end);
                limit -= 1;
            }
            let (mut pivot, mut hint) = self.choose_pivot(start, end);
            if hint == Hint::Decreasing {
                self.reverse(start, end);
                pivot = (end - 1) - (pivot - start);
                hint = Hint::Increasing;
            }
            if balanced && partitioned && hint == Hint::Increasing && self.partial_insertion_sort(start, end)
            {
                return;
            }
            if start > 0 && !self.less(start - 1, pivot) {
                start = self.partition_equal(start, end, pivot);
                continue;
            }
            let (middle, already) = self.partition(start, end, pivot);
            partitioned = already;
            let (left, right) = (middle - start, end - middle);
            balanced = left.min(right) >= length / 8;
            if left < right {
                self.range(start, middle, limit);
                start = middle + 1;
            } else {
                self.range(middle + 1, end, limit);
                end = middle;
            }
        }
    }

    fn insertion_sort(&mut self, start: usize, end: usize) {
        for item in start + 1..end {
            let mut place = item;
            while place > start && self.less(place, place - 1) {
                self.swap(place, place - 1);
                place -= 1;
            }
        }
    }

    fn heap_sort(&mut self, start: usize, end: usize) {
        let length = end - start;
        for root in (0..length.div_ceil(2)).rev() {
            self.sift_down(root, length, start);
        }
        for last in (0..length).rev() {
            self.swap(start, start + last);
            self.sift_down(0, last, start);
        }
    }

    fn sift_down(&mut self, mut root: usize, end: usize, start: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= end {
                return;
            }
            if child + 1 < end && self.less(start + child, start + child + 1) {
                child += 1;
            }
            if !self.less(start + root, start + child) {
                return;
            }
            self.swap(start + root, start + child);
            root = child;
        }
    }

    /// Swaps three items with positions that depend on the length only, to break patterns that give bad pivots.
    fn break_patterns(&mut self, start: usize, end: usize) {
        let length = end - start;
        let mut random = u64::try_from(length).unwrap_or(u64::MAX);
        let modulus = (1_u64 << (u64::BITS - random.leading_zeros())).wrapping_sub(1);
        let middle = start + length / 4 * 2 - 1;
        for offset in 0..3 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let other = usize::try_from(random & modulus).unwrap_or(0);
            let other = if other >= length { other - length } else { other };
            self.swap(middle - 1 + offset, start + other);
        }
    }

    fn choose_pivot(&self, start: usize, end: usize) -> (usize, Hint) {
        let quarter = (end - start) / 4;
        let mut swaps = 0;
        let mut places = [1, 2, 3].map(|quarters| start + quarter * quarters);
        if end - start >= NINTHER_MIN {
            places = places.map(|place| self.median([place - 1, place, place + 1], &mut swaps));
        }
        let pivot = self.median(places, &mut swaps);
        let hint = match swaps {
            0 => Hint::Increasing,
            MAX_SWAPS => Hint::Decreasing,
            _ => Hint::Unknown,
        };
        (pivot, hint)
    }

    fn median(&self, [mut first, mut second, mut third]: [usize; 3], swaps: &mut usize) -> usize {
        let mut order = |one: &mut usize, other: &mut usize| {
            if self.less(*other, *one) {
                *swaps += 1;
                std::mem::swap(one, other);
            }
        };
        order(&mut first, &mut second);
        order(&mut second, &mut third);
        order(&mut first, &mut second);
        second
    }

    fn reverse(&mut self, start: usize, end: usize) {
        if let Some(range) = self.items.get_mut(start..end) {
            range.reverse();
        }
    }

    /// Sorts a nearly sorted range. Returns false if the range is not nearly sorted.
    fn partial_insertion_sort(&mut self, start: usize, end: usize) -> bool {
        let mut place = start + 1;
        for _ in 0..MAX_STEPS {
            while place < end && !self.less(place, place - 1) {
                place += 1;
            }
            if place == end {
                return true;
            }
            if end - start < SHIFTING_MIN {
                return false;
            }
            self.swap(place, place - 1);
            if place - start >= 2 {
                for left in (1..place).rev() {
                    if !self.less(left, left - 1) {
                        break;
                    }
                    self.swap(left, left - 1);
                }
            }
            if end - place >= 2 {
                for right in place + 1..end {
                    if !self.less(right, right - 1) {
                        break;
                    }
                    self.swap(right, right - 1);
                }
            }
        }
        false
    }

    /// Moves items equal to the pivot to the left and greater items to the right. Returns where the greater items
    /// start.
    fn partition_equal(&mut self, start: usize, end: usize, pivot: usize) -> usize {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        loop {
            while low <= high && !self.less(start, low) {
                low += 1;
            }
            while low <= high && self.less(start, high) {
                high -= 1;
            }
            if low > high {
                return low;
            }
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
    }

    /// Moves items less than the pivot to the left and the others to the right. Returns the pivot's position, and
    /// whether the range was already partitioned.
    fn partition(&mut self, start: usize, end: usize, pivot: usize) -> (usize, bool) {
        self.swap(start, pivot);
        let (mut low, mut high) = (start + 1, end - 1);
        let mut already = true;
        loop {
            while low <= high && self.less(low, start) {
                low += 1;
            }
            while low <= high && !self.less(high, start) {
                high -= 1;
            }
            if low > high {
                break;
            }
            already = false;
            self.swap(low, high);
            low += 1;
            high -= 1;
        }
        self.swap(high, start);
        (high, already)
    }
}

#[cfg(test)]
mod tests {
    use super::go_sort;

    /// Pseudo-random numbers, the same in each run.
    fn numbers(count: usize, bound: u64) -> Vec<u64> {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn every_list_is_sorted() {
        for count in [0, 1, 2, 12, 13, 49, 50, 51, 200, 3000] {
            for bound in [2, 7, 1_000_000] {
                let mut rising = numbers(count, bound);
                let mut wanted = rising.clone();
                wanted.sort_unstable();
                go_sort(&mut rising, |one, other| one < other);
                assert_eq!(rising, wanted, "{count} below {bound}");
                // Sorted, reversed, and with a few items out of place.
                let mut list = wanted.clone();
                list.reverse();
                go_sort(&mut list, |one, other| one < other);
                assert_eq!(list, wanted);
                if count > 60 {
                    list.swap(3, 50);
                    list.swap(20, 21);
                    go_sort(&mut list, |one, other| one < other);
                    assert_eq!(list, wanted);
                }
            }
        }
    }

    #[test]
    fn a_list_with_bad_pivots_is_sorted() {
        let mut organ: Vec<usize> = (0..500).chain((0..500).rev()).cycle().take(5000).collect();
        let mut wanted = organ.clone();
        wanted.sort_unstable();
        go_sort(&mut organ, |one, other| one < other);
        assert_eq!(organ, wanted);
    }

    /// With up to twelve items, insertion sort moves each item left while it precedes its neighbour.
    #[test]
    fn an_intransitive_comparison_gives_the_order_of_insertion_sort() {
        // Rock, paper, scissors: a comparison that is not transitive.
        let mut hands = vec![0, 1, 2, 0, 2];
        go_sort(&mut hands, |one, other| (one + 1) % 3 == *other);
        assert_eq!(hands, [0, 1, 2, 2, 0]);
    }
}
