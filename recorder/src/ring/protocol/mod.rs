//! The protocols between the ring's one writer and readers that it does not notice: [`slots`], [`blocks`],
//! [`double_buffer`] and [`seq_lock`].
//!
//! All are sequence locks over atomic words (Boehm, "Can seqlocks get along with programming language memory models?",
//! 2012): a torn copy is detected and never undefined behaviour. Each needs the same two fences. The writer stores the
//! counter that announces a change, then a release fence, then the words, relaxed; a reader loads the words, relaxed,
//! then an acquire fence, then the counter. If a load sees one of the words, the two fences synchronize, so the later
//! load of the counter sees the announcement. Without the writer's fence aarch64 may make a word visible before the
//! announcement; x86-64 never does. The same fence orders the words behind the ring's head: a reader that sees a change
//! sees the record that led to it.
//!
//! A reader may be another process, which reads the file ([`ReadWords`]). Loom checks the code that runs.

pub(super) mod blocks;
pub(super) mod double_buffer;
pub(super) mod seq_lock;
pub(super) mod slots;

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A shared word. Generic, so that loom checks the code that runs.
pub(super) trait AtomicWord {
    /// `AtomicU64::load`.
    fn load(&self, order: Ordering) -> u64;
    /// A relaxed load by the only thread that stores the word.
    fn load_own(&self) -> u64;
    /// `AtomicU64::store`.
    fn store(&self, value: u64, order: Ordering);
    /// `atomic::fence`.
    fn fence(order: Ordering);
}

impl AtomicWord for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    #[inline]
    fn load_own(&self) -> u64 {
        Self::load(self, Ordering::Relaxed)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

/// Words of a ring for a reader, in memory or in a file.
pub(super) trait ReadWords {
    /// One word. Later loads see what was stored before it (acquire).
    fn load(&self, at: usize) -> u64;

    /// Words side by side, loaded in any order (relaxed).
    fn load_all(&self, at: usize, into: &mut [u64]);

    /// Orders all earlier loads before all later ones.
    fn acquire_fence(&self) {
        fence(Ordering::Acquire);
    }
}

impl<W: AtomicWord> ReadWords for [W] {
    fn load(&self, at: usize) -> u64 {
        self[at].load(Ordering::Acquire)
    }

    fn load_all(&self, at: usize, into: &mut [u64]) {
        let words = &self[at..][..into.len()];
        for (value, word) in into.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
    }

    fn acquire_fence(&self) {
        W::fence(Ordering::Acquire);
    }
}

/// Stores words side by side, in any order (relaxed).
#[inline]
pub(super) fn store_all<W: AtomicWord>(words: &[W], values: &[u64]) {
    for (word, value) in words.iter().zip(values) {
        word.store(*value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod loom_word {
    use std::sync::atomic::Ordering;

    /// Loom's word, which has every value that the memory model allows.
    pub(super) type LoomWord = loom::sync::atomic::AtomicU64;

    impl super::AtomicWord for LoomWord {
        fn load(&self, order: Ordering) -> u64 {
            Self::load(self, order)
        }

        /// An ordinary load would hide from loom that the store after it races with a reader's load before it: loom
        /// remembers only the last access of a word, and would not try the store first.
        #[allow(unsafe_code)]
        fn load_own(&self) -> u64 {
            // SAFETY: no thread but this one stores the word; loom panics if one does.
            unsafe { self.unsync_load() }
        }

        fn store(&self, value: u64, order: Ordering) {
            Self::store(self, value, order);
        }

        fn fence(order: Ordering) {
            loom::sync::atomic::fence(order);
        }
    }

    /// Involuntary switches between the two threads in one run: the faults that loom finds need one or two, and without
    /// a bound the longest test takes minutes.
    const PREEMPTIONS_MAX: usize = 3;

    /// Runs a writer beside a reader of `count` words, in every order of the two with few switches between them, and
    /// with every reordering that the memory model allows.
    pub(super) fn check(
        count: usize,
        writer: impl Fn(&[LoomWord]) + Copy + Send + Sync + 'static,
        reader: impl Fn(&[LoomWord]) + Copy + Send + Sync + 'static,
    ) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(PREEMPTIONS_MAX);
        model.check(move || {
            let words: Vec<LoomWord> = (0..count).map(|_| LoomWord::default()).collect();
            let words = loom::sync::Arc::new(words);
            let written = loom::sync::Arc::clone(&words);
            let writing = loom::thread::spawn(move || writer(&written));
            reader(&words);
            writing.join().unwrap();
            reader(&words);
        });
    }
}
