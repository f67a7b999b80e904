//! Errors of a join: the one error type of this room.
//!
//! Everything but a cancellation and a refused thread is found before any work starts, so that a
//! refused join costs nothing. A key or a payload is never wrong: all values are allowed.

use thiserror::Error;

/// Result of a join.
pub type Result<T> = std::result::Result<T, JoinError>;

/// Why a join was refused or stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A column of keys came with a column of payloads of another length.
    #[error("a column of {keys} keys does not go with a column of {payloads} payloads")]
    LengthMismatch {
        /// Length of the keys.
        keys: usize,
        /// Length of the payloads.
        payloads: usize,
    },
    /// A relation has more tuples than positions in a partition can count.
    #[error("a relation of {tuples} tuples is too long; at most {tuples_max} can be joined")]
    TooManyTuples {
        /// Length of the relation.
        tuples: usize,
        /// The largest length.
        tuples_max: usize,
    },
    /// The scratch memory would exceed the limit, or the machine's memory. No work was done.
    #[error("the join needs {needed_bytes} bytes of scratch memory; {limit_bytes} are allowed")]
    NotEnoughMemory {
        /// The bytes that this join needs.
        needed_bytes: u64,
        /// The caller's limit, or the memory that is available.
        limit_bytes: u64,
    },
    /// The operating system refused the scratch memory.
    #[error("the system gave no {needed_bytes} bytes of scratch memory")]
    Mapping {
        /// The bytes asked for.
        needed_bytes: u64,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The operating system refused a thread.
    #[error("the system starts no more threads; ask for fewer")]
    Thread(#[source] std::io::Error),
    /// No algorithm has this name.
    #[error("`{name}` is no join algorithm; there are auto, radix, n-part, m-way, m-pass and mpsm")]
    UnknownAlgorithm {
        /// The name that was given.
        name: String,
    },
    /// No kernel has this name.
    #[error("`{name}` is no kernel; there are auto, avx512, avx2 and portable")]
    UnknownKernel {
        /// The name that was given.
        name: String,
    },
    /// This processor lacks instructions of the kernel that was asked for.
    #[error("this processor lacks instructions of the kernel {kernel}")]
    UnsupportedKernel {
        /// The kernel's name.
        kernel: &'static str,
    },
    /// No thread, or more than any machine has.
    #[error("a join runs on 1 to {threads_max} threads, not on {threads}")]
    BadThreads {
        /// The number that was given.
        threads: usize,
        /// The largest number.
        threads_max: usize,
    },
    /// Another setting is out of its range.
    #[error("{setting} is {value}; it has to be in {allowed}")]
    BadSetting {
        /// The setting's name.
        setting: &'static str,
        /// The value that was given.
        value: u64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The caller's [`Monitor`](crate::Monitor) was cancelled.
    #[error("the join was cancelled")]
    Cancelled,
}
