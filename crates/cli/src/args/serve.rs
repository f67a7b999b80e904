//! `serve`, `config` and `role`: a database for clients of PostgreSQL.
//!
//! The settings of a server are in its room; here each one becomes a flag.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use server::config::{SETTINGS, Setting};
use std::path::PathBuf;
use std::sync::LazyLock;

pub(crate) const EXAMPLES: &str = "\
Examples:
  indelible serve ./shop
  psql -h \"$PWD/shop\" -U me                      # its Unix socket, for the owner of the directory
  indelible role create ./shop ann                # asks for a password
  psql -h 127.0.0.1 -U ann                        # over TCP

Settings come from flags, then from the environment (INDELIBLE_MAX_CONNECTIONS), then from the
file DIR/indelible.conf (max_connections = 20); `indelible config` shows them with their origins.
SIGHUP reads them again. SIGTERM ends the server after open transactions, SIGINT at once. More is in docs/server.md.";

pub(crate) const CONFIG_EXAMPLES: &str = "\
Examples:
  indelible config ./shop
  indelible config ./shop --format json
  indelible config ./shop --config /etc/indelible.conf --max-connections 20";

/// `serve` and `config`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// File of settings; `indelible.conf` in the directory without this option
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: SettingFlags,
}

/// A flag for each setting of a server, as its text.
#[derive(Debug)]
pub(crate) struct SettingFlags(pub(crate) Vec<(&'static str, String)>);

/// The names of the flags, which live as long as the command that has them.
static FLAGS: LazyLock<Vec<String>> =
    LazyLock::new(|| SETTINGS.iter().map(Setting::flag).collect());

impl Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        let all = SETTINGS.iter().zip(FLAGS.iter());
        all.fold(command, |command, (setting, name)| {
            let mut flag = Arg::new(setting.name)
                .long(name.as_str())
                .value_name(setting.values)
                .help(setting.help);
            if setting.is_switch() {
                flag = flag
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("on");
            }
            command.arg(flag)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let value = matches.get_one::<String>(setting.name)?;
            Some((setting.name, value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// `role`.
#[derive(Debug, Subcommand)]
pub(crate) enum RoleCommand {
    /// Let a role connect to a server with a password; one that exists gets a new password
    #[command(after_help = "Examples:\n  indelible role create ./shop ann\n  \
                            indelible role create ./shop ann < password.txt\n\n\
                      It is a superuser, as the role that a new PostgreSQL cluster has; with\n\
                      --no-superuser it may do what GRANT allows. While a server has the\n\
                      database open, this asks the server, over the socket in the directory.")]
    Create(RoleArgs),
}

/// `role create`.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    /// Directory of the database
    pub(crate) path: PathBuf,
    /// Name of the role
    pub(crate) name: String,
    /// Make it a role that may do only what GRANT allows
    #[arg(long)]
    pub(crate) no_superuser: bool,
}
