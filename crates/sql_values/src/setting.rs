//! Settings: `SET`, `SHOW` and `RESET`, and their defaults.
//!
//! Names that PostgreSQL knows and nothing here depends on are kept and shown, so that clients
//! which set them go on; names with a dot are the clients' own.

mod facts;
mod moment;
mod unit;

pub use facts::{Facts, facts_of, shown_value};
pub use unit::millis_of;

use crate::encoding::Encoding;
use crate::error::{Result, SqlError, SqlState};
use crate::types::Settings;
use crate::types::context::{ByteaOutput, IntervalStyle};
use crate::types::text_io::cut_name;
use crate::undo::Undo;
use indelible::{Durability, Isolation, Mode, Wait};
use moment::{date_style, time_zone};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use unit::bytes_of;

/// Names and defaults of the settings that there are.
const DEFAULTS: &[(&str, &str)] = &[
    ("application_name", ""),
    ("archive_command", ""),
    ("archive_mode", "off"),
    ("array_nulls", "on"),
    ("autovacuum", "off"),
    ("autovacuum_freeze_max_age", "200000000"),
    ("autovacuum_max_workers", "1"),
    ("autovacuum_multixact_freeze_max_age", "400000000"),
    ("backend_flush_after", "0"),
    ("backslash_quote", "safe_encoding"),
    ("block_size", "8192"),
    ("bytea_output", "hex"),
    ("check_function_bodies", "on"),
    ("client_connection_check_interval", "0"),
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("compute_query_id", "auto"),
    ("config_file", ""),
    ("constraint_exclusion", "partition"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("cursor_tuple_fraction", "0.1"),
    ("data_directory", ""),
    ("datestyle", "ISO, MDY"),
    ("deadlock_timeout", "1s"),
    ("debug_pretty_print", "on"),
    ("debug_print_plan", "off"),
    ("default_statistics_target", "100"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("default_text_search_config", "pg_catalog.simple"),
    ("default_toast_compression", "pglz"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("effective_cache_size", "4GB"),
    ("effective_io_concurrency", "1"),
    ("enable_async_append", "on"),
    ("enable_bitmapscan", "on"),
    ("enable_gathermerge", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_incremental_sort", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_memoize", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_parallel_append", "on"),
    ("enable_parallel_hash", "on"),
    ("enable_partition_pruning", "on"),
    ("enable_partitionwise_aggregate", "off"),
    ("enable_partitionwise_join", "off"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("enable_tidscan", "on"),
    ("escape_string_warning", "on"),
    ("exit_on_error", "off"),
    ("extra_float_digits", "1"),
    ("from_collapse_limit", "8"),
    ("geqo", "on"),
    ("geqo_effort", "5"),
    ("geqo_generations", "0"),
    ("geqo_pool_size", "0"),
    ("geqo_seed", "0"),
    ("geqo_selection_bias", "2"),
    ("geqo_threshold", "12"),
    ("gin_fuzzy_search_limit", "0"),
    ("gin_pending_list_limit", "4MB"),
    ("hash_mem_multiplier", "2"),
    ("hot_standby", "off"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("is_superuser", "on"),
    ("jit", "off"),
    ("jit_above_cost", "100000"),
    ("join_collapse_limit", "8"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("listen_addresses", ""),
    ("lo_compat_privileges", "off"),
    ("lock_timeout", "0"),
    ("log_duration", "off"),
    ("log_lock_waits", "off"),
    ("log_min_duration_statement", "-1"),
    ("log_min_error_statement", "error"),
    ("log_min_messages", "warning"),
    ("log_statement", "none"),
    ("log_temp_files", "-1"),
    ("logical_decoding_work_mem", "64MB"),
    ("maintenance_work_mem", "64MB"),
    ("max_connections", "100"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("max_parallel_maintenance_workers", "0"),
    ("max_parallel_workers", "8"),
    ("max_parallel_workers_per_gather", "0"),
    ("max_prepared_transactions", "64"),
    ("max_replication_slots", "0"),
    ("max_stack_depth", "2MB"),
    ("max_wal_senders", "0"),
    ("max_worker_processes", "0"),
    ("min_parallel_index_scan_size", "512kB"),
    ("min_parallel_table_scan_size", "8MB"),
    ("parallel_leader_participation", "on"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("password_encryption", "scram-sha-256"),
    ("plan_cache_mode", "auto"),
    ("port", "5432"),
    ("quote_all_identifiers", "off"),
    ("random_page_cost", "4"),
    ("recursive_worktable_factor", "10"),
    ("role", "none"),
    ("row_security", "on"),
    ("search_path", "\"$user\", public"),
    ("seed", "unavailable"),
    ("segment_size", "1GB"),
    ("seq_page_cost", "1"),
    ("server_encoding", "UTF8"),
    (
        "server_version",
        concat!("15.0 (Indelible ", env!("CARGO_PKG_VERSION"), ")"),
    ),
    ("server_version_num", "150000"),
    ("session_authorization", "indelible"),
    ("session_replication_role", "origin"),
    ("shared_buffers", "0"),
    ("shared_preload_libraries", ""),
    ("ssl", "off"),
    ("standard_conforming_strings", "on"),
    ("statement_timeout", "0"),
    ("superuser_reserved_connections", "0"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("tcp_keepalives_count", "0"),
    ("tcp_keepalives_idle", "0"),
    ("tcp_keepalives_interval", "0"),
    ("tcp_user_timeout", "0"),
    ("temp_buffers", "8MB"),
    ("temp_file_limit", "-1"),
    ("temp_tablespaces", ""),
    ("timezone", "UTC"),
    ("timezone_abbreviations", "Default"),
    ("trace_sort", "off"),
    ("track_activities", "on"),
    ("track_activity_query_size", "1kB"),
    ("track_counts", "on"),
    ("track_functions", "none"),
    ("track_io_timing", "off"),
    ("transaction_deferrable", "off"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "off"),
    ("transform_null_equals", "off"),
    ("unix_socket_directories", ""),
    ("vacuum_cost_delay", "0"),
    ("wal_block_size", "8192"),
    ("wal_level", "minimal"),
    ("wal_segment_size", "16MB"),
    ("work_mem", "64MB"),
    ("xmlbinary", "base64"),
    ("xmloption", "content"),
];

/// Settings that nobody can change.
const FIXED: &[&str] = &[
    "archive_command",
    "archive_mode",
    "autovacuum",
    "autovacuum_freeze_max_age",
    "autovacuum_max_workers",
    "autovacuum_multixact_freeze_max_age",
    "block_size",
    "config_file",
    "data_directory",
    "hot_standby",
    "in_hot_standby",
    "integer_datetimes",
    "is_superuser",
    "listen_addresses",
    "max_connections",
    "max_identifier_length",
    "max_index_keys",
    "max_prepared_transactions",
    "max_replication_slots",
    "max_wal_senders",
    "max_worker_processes",
    "port",
    "segment_size",
    "server_encoding",
    "server_version",
    "server_version_num",
    "shared_buffers",
    "shared_preload_libraries",
    "superuser_reserved_connections",
    "track_activity_query_size",
    "unix_socket_directories",
    "wal_block_size",
    "wal_level",
    "wal_segment_size",
];

/// Settings that superusers change, as in PostgreSQL: they are about the server's resources and
/// what it tells its operator.
const OPERATORS: &[&str] = &[
    "lc_messages",
    "lo_compat_privileges",
    "log_duration",
    "log_lock_waits",
    "log_min_duration_statement",
    "log_min_error_statement",
    "log_min_messages",
    "log_statement",
    "log_temp_files",
    "max_stack_depth",
    "session_replication_role",
    "temp_file_limit",
    "track_activities",
    "track_counts",
    "track_functions",
    "track_io_timing",
];

/// Settings that superusers see, as in PostgreSQL: they tell where the server's files are.
const HIDDEN: &[&str] = &[
    "config_file",
    "data_directory",
    "shared_preload_libraries",
    "unix_socket_directories",
];

/// Whether superusers alone see a setting.
pub fn is_hidden(name: &str) -> bool {
    HIDDEN.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// Whether superusers alone change a setting.
pub fn is_operators(name: &str) -> bool {
    OPERATORS.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// The isolation of transactions that ask for none.
pub const READ_COMMITTED: &str = "read committed";

/// Settings that every statement looks at, read from their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// The isolation of the next transaction.
    pub isolation: Isolation,
    /// Its name: READ UNCOMMITTED is the same as READ COMMITTED, and shown as itself.
    pub isolation_name: &'static str,
    /// Whether it may change rows.
    pub access: Mode,
    /// Whether it is `DEFERRABLE`.
    pub defers: bool,
    /// What a commit waits for.
    pub durability: Durability,
    /// How long statements wait for locks.
    pub wait: Wait,
    /// How long a statement may take; none for as long as it likes.
    pub limit: Option<Duration>,
    /// Bytes of `work_mem`.
    pub work_mem: u64,
    /// The most bytes of the session's temporary files, if there is a limit.
    pub temp_file_limit: Option<u64>,
    /// The use of the plan cache.
    pub plans: PlanCacheMode,
}

/// The plans that the cache is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanCacheMode {
    /// Those of fingerprints that were met before.
    Auto,
    /// Those of all fingerprints.
    All,
    /// No plan: each statement gets one of its own.
    None,
}

impl Default for Modes {
    /// Those of the default settings.
    fn default() -> Self {
        Self {
            isolation: Isolation::ReadCommitted,
            isolation_name: READ_COMMITTED,
            access: Mode::ReadWrite,
            defers: false,
            durability: Durability::Immediate,
            wait: Wait::Limit(LOCK_WAIT_MAX),
            limit: None,
            work_mem: WORK_MEM,
            temp_file_limit: None,
            plans: PlanCacheMode::Auto,
        }
    }
}

/// A wait without a limit: deadlocks are found at once, so nothing else ends it.
const LOCK_WAIT_MAX: Duration = Duration::from_hours(365 * 24);

/// `work_mem` by default.
const WORK_MEM: u64 = 64 << 20;

/// The settings of a session that are not the default.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    modes: Modes,
    values: BTreeMap<String, String>,
    /// Values that the session has begun with, which `RESET` goes back to.
    begun: BTreeMap<String, String>,
    /// Values from before the changes of the transaction and of its savepoints.
    undone: BTreeMap<String, Undo<Option<String>>>,
    /// The level of the changes to come: 0 outside of transactions, 1 in one, and one more in each
    /// savepoint.
    level: usize,
    /// Facts about the server, which all sessions share: names and values, in order.
    shared: Arc<[(&'static str, String)]>,
    /// `session_authorization`, which is none as long as it is the default.
    session_role: Option<Arc<str>>,
    /// Counts changes, so that plans made under other settings are made again.
    pub version: u64,
}

impl Variables {
    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        let name = lower(name);
        let own = self
            .told(&name)
            .or_else(|| self.values.get(&*name).map(String::as_str));
        own.or_else(|| default_of(&name))
    }

    /// The value of a setting that most sessions share, and none of them sets.
    fn told(&self, name: &str) -> Option<&str> {
        if name == "session_authorization" {
            return self.session_role.as_deref();
        }
        let shared = self.shared.iter().find(|(shared, _)| *shared == name);
        shared.map(|(_, value)| value.as_str())
    }

    /// The settings that every statement looks at.
    pub fn modes(&self) -> Modes {
        self.modes
    }

    fn read_modes(&mut self) {
        let time = |name| {
            let millis = self.get(name).and_then(millis_of);
            millis
                .filter(|millis| *millis > 0)
                .map(Duration::from_millis)
        };
        let isolation = self.get("default_transaction_isolation");
        let (isolation, isolation_name) = isolation
            .and_then(isolation_named)
            .unwrap_or((Isolation::ReadCommitted, READ_COMMITTED));
        self.modes = Modes {
            isolation,
            isolation_name,
            access: match self.get("default_transaction_read_only") {
                Some("on") => Mode::ReadOnly,
                _ => Mode::ReadWrite,
            },
            defers: self.get("default_transaction_deferrable") == Some("on"),
            durability: match self.get("synchronous_commit") {
                Some("off") => Durability::None,
                _ => Durability::Immediate,
            },
            wait: Wait::Limit(time("lock_timeout").unwrap_or(LOCK_WAIT_MAX)),
            limit: time("statement_timeout"),
            work_mem: self.get("work_mem").and_then(bytes_of).unwrap_or(WORK_MEM),
            temp_file_limit: self.get("temp_file_limit").and_then(bytes_of),
            plans: match self.get("plan_cache_mode") {
                Some("force_custom_plan") => PlanCacheMode::None,
                Some("force_generic_plan") => PlanCacheMode::All,
                _ => PlanCacheMode::Auto,
            },
        };
    }

    /// All settings with their values, by name.
    pub fn all(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> = DEFAULTS
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        all.extend(self.values.clone());
        let shared = self.shared.iter().map(|(name, _)| *name);
        for name in shared.chain(["session_authorization"]) {
            all.extend(
                self.told(name)
                    .map(|value| (name.to_owned(), value.to_owned())),
            );
        }
        all.into_iter().collect()
    }

    /// The settings that differ from their defaults, as one text.
    pub fn changed(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.values {
            // The name of the client changes no plan, and many clients differ in it only.
            if name != "application_name" {
                text.extend([name, "=", value, "\0"]);
            }
        }
        text
    }

    /// Sets a value, or the default if there is none, for names that exist.
    pub fn set(&mut self, settings: &mut Settings, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_lowercase();
        let Some(default) = default_of(&name).or(is_custom(&name).then_some("")) else {
            return Err(unknown(&name));
        };
        if is_fixed(&name) {
            let message = format!("parameter \"{name}\" cannot be changed");
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        let value = value.or(self.begun.get(&name).map(String::as_str));
        let value = value.or(is_custom(&name).then_some(""));
        let text = apply(settings, &name, value.unwrap_or(default))?;
        self.version += 1;
        match value {
            Some(_) => {
                self.values.insert(name, text);
            }
            None => {
                self.values.remove(&name);
            }
        }
        self.read_modes();
        Ok(())
    }

    /// The value that the session has begun with, which `RESET` goes back to, if it is not the
    /// default.
    pub fn begun(&self, name: &str) -> Option<&str> {
        self.begun.get(name).map(String::as_str)
    }

    /// Makes the value of a setting the one that the session begins with.
    pub fn begin_with(&mut self, name: &str) {
        let name = name.to_lowercase();
        if let Some(value) = self.values.get(&name) {
            self.begun.insert(name, value.clone());
        }
    }

    /// Tells the value of a setting that no statement can set.
    pub fn tell(&mut self, name: &str, value: &str) {
        let changed = if default_of(name) == Some(value) {
            self.values.remove(name).is_some()
        } else {
            let before = self.values.insert(name.to_owned(), value.to_owned());
            before.as_deref() != Some(value)
        };
        self.version += u64::from(changed);
    }

    /// Tells facts about the server, which no statement can set.
    pub fn tell_shared(&mut self, facts: Arc<[(&'static str, String)]>) {
        self.shared = facts;
    }

    /// Tells the role that the session acts as.
    pub fn tell_session_role(&mut self, name: &str) {
        if self.get("session_authorization") != Some(name) {
            self.session_role = Some(name.into());
            self.version += 1;
        }
    }

    /// The level of the changes to come.
    pub fn level(&self) -> usize {
        self.level
    }

    /// The changes to come are of a level: 0 outside of transactions, 1 in one, and one more in
    /// each savepoint.
    pub fn enter(&mut self, level: usize) {
        self.level = level;
    }

    /// Keeps the value of a setting that is about to change, for the transaction if that is local.
    pub fn keep(&mut self, name: &str, is_local: bool) {
        if self.level > 0 {
            let name = name.to_lowercase();
            let value = self.values.get(&name).cloned();
            let undo = self.undone.entry(name).or_default();
            undo.keep(self.level, is_local, value);
        }
    }

    /// Makes the changes of higher levels those of this one.
    pub fn release(&mut self, level: usize) {
        for undo in self.undone.values_mut() {
            undo.release(level);
        }
    }

    /// Gives settings back the values from before a level; whether there were any.
    pub fn undo(&mut self, settings: &mut Settings, level: usize) -> bool {
        self.go_back(settings, |undo| undo.undo(level))
    }

    /// Gives settings the values that the session has after a transaction that has committed;
    /// whether there were others.
    pub fn commit(&mut self, settings: &mut Settings) -> bool {
        self.go_back(settings, Undo::commit)
    }

    fn go_back(
        &mut self,
        settings: &mut Settings,
        mut end: impl FnMut(&mut Undo<Option<String>>) -> Option<Option<String>>,
    ) -> bool {
        let mut values = Vec::new();
        self.undone.retain(|name, undo| {
            values.extend(end(undo).map(|value| (name.clone(), value)));
            !undo.is_empty()
        });
        for (name, value) in &values {
            // Only the name of a setting that does not exist fails, and changes nothing.
            let _ = self.set(settings, name, value.as_deref());
        }
        !values.is_empty()
    }

    /// Sets all to their defaults, but for the role, which is no setting of the kind.
    pub fn reset(&mut self, settings: &mut Settings) {
        *settings = Settings::default();
        let role = self.values.remove_entry("role");
        let names: Vec<String> = self.values.keys().cloned().collect();
        for name in names.iter().filter(|name| !is_fixed(name)) {
            self.keep(name, false);
        }
        self.values = self.begun.clone();
        for (name, value) in &self.begun {
            // They have been applied before, so none fails.
            let _ = apply(settings, name, value);
        }
        let own = names.into_iter().filter(|name| is_custom(name));
        for name in own {
            self.values.entry(name).or_default();
        }
        self.values.extend(role);
        self.version += 1;
        self.read_modes();
    }
}

/// Whether a setting is a client's own, which exists from its first value on.
fn is_custom(name: &str) -> bool {
    name.contains('.') && default_of(name).is_none()
}

/// A name in lower case.
fn lower(name: &str) -> Cow<'_, str> {
    if name
        .bytes()
        .any(|byte| !byte.is_ascii_lowercase() && byte != b'_')
    {
        return Cow::Owned(name.to_lowercase());
    }
    Cow::Borrowed(name)
}

/// The isolation with a name, and the name.
pub fn isolation_named(name: &str) -> Option<(Isolation, &'static str)> {
    let known = [
        (Isolation::ReadCommitted, READ_COMMITTED),
        (Isolation::ReadCommitted, "read uncommitted"),
        (Isolation::RepeatableRead, "repeatable read"),
        (Isolation::Serializable, "serializable"),
    ];
    known.into_iter().find(|(_, known)| *known == name)
}

/// Whether nobody can change a setting.
pub fn is_fixed(name: &str) -> bool {
    FIXED.contains(&name)
}

/// The error of a setting that does not exist.
pub fn unknown(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// The default of a setting.
pub fn default_of(name: &str) -> Option<&'static str> {
    let at = DEFAULTS
        .binary_search_by(|(known, _)| (*known).cmp(name))
        .ok()?;
    Some(DEFAULTS[at].1)
}

fn bad(name: &str, value: &str) -> SqlError {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Checks a value, lets it take effect, and returns the text that `SHOW` prints.
fn apply(settings: &mut Settings, name: &str, value: &str) -> Result<String> {
    match name {
        "timezone" => return time_zone(settings, value),
        "datestyle" => {
            let style = date_style(settings, &value.trim().to_lowercase());
            return style.ok_or_else(|| bad("DateStyle", value));
        }
        "client_encoding" => return client_encoding(value),
        _ => {}
    }
    let mut shown = shown_value(name, value)?;
    match name {
        "application_name" => shown.truncate(cut_name(&shown).len()),
        "intervalstyle" => {
            settings.interval_style = match shown.as_str() {
                "postgres_verbose" => IntervalStyle::PostgresVerbose,
                "sql_standard" => IntervalStyle::SqlStandard,
                "iso_8601" => IntervalStyle::Iso8601,
                _ => IntervalStyle::Postgres,
            };
        }
        "bytea_output" => {
            settings.bytea_output = match shown.as_str() {
                "escape" => ByteaOutput::Escape,
                _ => ByteaOutput::Hex,
            };
        }
        "extra_float_digits" => {
            settings.extra_float_digits = shown.parse().map_err(|_| bad(name, value))?;
        }
        // Clients would escape texts, and write conditions, for a server that reads them so.
        "standard_conforming_strings" if shown == "off" => {
            let instead = "Write texts with backslashes as E'...'.";
            return Err(SqlError::unsupported(
                "standard_conforming_strings = off",
                instead,
            ));
        }
        "transform_null_equals" if shown == "on" => {
            let instead = "Write IS NULL.";
            return Err(SqlError::unsupported("transform_null_equals = on", instead));
        }
        _ => {}
    }
    Ok(shown)
}

/// The encoding of texts on the way to a client of a server and back.
fn client_encoding(value: &str) -> Result<String> {
    if let Some(encoding) = Encoding::named(value) {
        return Ok(encoding.name.to_owned());
    }
    let letters = value.to_lowercase();
    let letters: String = letters
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    if matches!(letters.as_str(), "utf8" | "unicode" | "sqlascii") {
        return Ok("UTF8".to_owned());
    }
    let families = ["euc", "big5", "gb", "sjis", "shift", "uhc", "johab", "mule"];
    let error = bad("client_encoding", value);
    if !families.iter().any(|family| letters.starts_with(family)) {
        return Err(error);
    }
    let error = SqlError {
        state: SqlState::FEATURE_NOT_SUPPORTED,
        ..error
    };
    let detail = format!(
        "Conversion between {} and UTF8 is not supported.",
        value.to_uppercase()
    );
    let hint = "Set client_encoding (PGCLIENTENCODING) to UTF8, or to an encoding of one byte a character.";
    Err(error.detail(detail).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_sorted_and_are_valid() {
        assert!(DEFAULTS.is_sorted_by_key(|(name, _)| *name));
        let mut settings = Settings::default();
        for (name, value) in DEFAULTS.iter().filter(|(name, _)| !is_fixed(name)) {
            let shown = apply(&mut settings, name, value).unwrap();
            assert_eq!(shown, *value, "{name}");
        }
    }

    #[test]
    fn modes_are_those_of_the_settings() {
        let (mut variables, mut settings) = (Variables::default(), Settings::default());
        variables.read_modes();
        assert_eq!(variables.modes(), Modes::default());
        let wait = Some("2s");
        variables.set(&mut settings, "Lock_Timeout", wait).unwrap();
        let limit = Wait::Limit(Duration::from_secs(2));
        assert_eq!(variables.modes().wait, limit);
        variables.reset(&mut settings);
        assert_eq!(variables.modes(), Modes::default());
    }

    #[test]
    fn reset_goes_back_to_what_the_session_began_with() {
        let (mut variables, mut settings) = (Variables::default(), Settings::default());
        let mut set = |variables: &mut Variables, value: Option<&str>| {
            variables.set(&mut settings, "TimeZone", value).unwrap();
            settings.zone_name.clone()
        };
        set(&mut variables, Some("Asia/Tokyo"));
        variables.begin_with("TimeZone");
        assert_eq!(set(&mut variables, Some("UTC")), "UTC");
        assert_eq!(set(&mut variables, None), "Asia/Tokyo");
        assert_eq!(variables.get("timezone"), Some("Asia/Tokyo"));
        set(&mut variables, Some("UTC"));
        let mut settings = Settings::default();
        variables.reset(&mut settings);
        assert_eq!(settings.zone_name, "Asia/Tokyo");
        assert_eq!(variables.get("timezone"), Some("Asia/Tokyo"));
    }

    #[test]
    fn zones_are_shown_by_their_own_names() {
        let mut settings = Settings::default();
        for (value, shown) in [
            ("utc", "UTC"),
            ("europe/berlin", "Europe/Berlin"),
            ("-3", "<-03>+03"),
        ] {
            assert_eq!(apply(&mut settings, "timezone", value).unwrap(), shown);
        }
    }
}
