//! The table of strategies: a row each. [Adding one](../../../docs/adding-a-strategy.md) is a file and a row.

use std::path::Path;

use models::async_pool::AsyncPool;
use models::bfc::Bfc;
use models::model::Model;
use models::model_settings::{self, Key, SettingError, Settings};
use models::rmm_arena::RmmArena;
use models::rmm_pool::RmmPool;
use settings::{Compat, Config, ConfigError, StitchConfig};

use crate::plan::{self, PlanFileError};

/// What the table says of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name in tables and on the command line.
    pub name: &'static str,
    /// What it is, in a line.
    pub what: &'static str,
    /// Whether it serves live allocations, or replays only.
    pub is_live: bool,
    /// Its settings; those of live strategies are PyTorch's.
    pub keys: &'static [Key],
}

impl Row {
    /// Whether a verdict may count on it: a live strategy that real GPUs have run.
    pub fn is_proven(&self) -> bool {
        self.is_live && self.name != STITCH.name
    }
}

/// A strategy that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StrategyError {
    /// There is no strategy of this name.
    #[error("there is no strategy `{name}`; known: {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A model's setting makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A setting of `stitch` makes no sense.
    #[error("stitch: `{entry}`: write {values}")]
    Stitch {
        /// The entry.
        entry: String,
        /// The values that it may have.
        values: &'static str,
    },
    /// The plan of `stitch` cannot be used.
    #[error("stitch: {0}")]
    Plan(#[from] PlanFileError),
    /// PyTorch's settings that PyTorch would not take.
    #[error("{strategy}: {source}")]
    PyTorch {
        /// The strategy.
        strategy: &'static str,
        /// What is wrong.
        source: ConfigError,
    },
}

/// The settings of a model, and the text they were read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given<S> {
    /// As they were written.
    pub text: String,
    /// What they say.
    pub settings: S,
}

/// Who does something with a strategy whose type is known.
pub(crate) trait Visitor {
    /// What comes of it.
    type Output;
    /// The live allocator.
    fn native(self, config: &Config) -> Self::Output;
    /// A model.
    fn model<M: Model>(self, settings: &M::Settings) -> Self::Output;
}

/// The rows of the models. Each is the name of a variant and the type of the model.
macro_rules! models {
    ($($(#[$doc:meta])* $variant:ident: $model:ty,)*) => {
        /// A strategy and its settings.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Choice {
            /// The live allocator: `native`, `expandable` where it has expandable segments, or `stitch`.
            Native(Config),
            $($(#[$doc])* $variant(Given<<$model as Model>::Settings>),)*
        }

        /// All strategies.
        pub const TABLE: &[Row] = &[
            NATIVE,
            EXPANDABLE,
            STITCH,
            $(Row {
                name: <$model as Model>::NAME,
                what: <$model as Model>::WHAT,
                is_live: false,
                keys: <<$model as Model>::Settings as Settings>::KEYS,
            },)*
        ];

        impl Choice {
            fn model(name: &str, text: &str) -> Result<Self, StrategyError> {
                $(if name == <$model as Model>::NAME {
                    let settings = model_settings::read(<$model as Model>::NAME, text)?;
                    return Ok(Self::$variant(Given { text: text.to_owned(), settings }));
                })*
                Err(StrategyError::Unknown { name: name.to_owned() })
            }

            /// Its name in the table.
            pub fn name(&self) -> &'static str {
                match self {
                    Self::Native(config) => name_of(config),
                    $(Self::$variant(_) => <$model as Model>::NAME,)*
                }
            }

            /// Its settings as they were written.
            pub fn text(&self) -> &str {
                match self {
                    Self::Native(config) => &config.text,
                    $(Self::$variant(given) => &given.text,)*
                }
            }

            /// Lets the visitor see it under its own type.
            pub(crate) fn visit<V: Visitor>(&self, visitor: V) -> V::Output {
                match self {
                    Self::Native(config) => visitor.native(config),
                    $(Self::$variant(given) => visitor.model::<$model>(&given.settings),)*
                }
            }
        }
    };
}

models! {
    /// CUDA's own.
    AsyncPool: AsyncPool,
    /// TensorFlow's.
    Bfc: Bfc,
    /// RAPIDS' pool.
    RmmPool: RmmPool,
    /// RAPIDS' arena.
    RmmArena: RmmArena,
}

/// `native`.
pub const NATIVE: Row = Row {
    name: "native",
    what: "PyTorch's policy, placement for placement, with all its settings",
    is_live: true,
    keys: &[],
};

const EXPANDABLE: Row = Row {
    name: "expandable",
    what: "the same with expandable_segments:True",
    is_live: true,
    keys: &[],
};

/// `stitch`.
pub const STITCH: Row = Row {
    name: "stitch",
    what: "pages of 2 MiB apart from addresses, and a memory of placements; run on one GPU so far",
    is_live: true,
    keys: &[
        Key {
            name: "address_budget",
            values: "2 to 64",
            what: "mapped addresses for each byte of memory, at most (default 4)",
        },
        Key {
            name: "placement_memory",
            values: "True|False",
            what: "offer requests the addresses of earlier steps first (default True)",
        },
        Key {
            name: "stream_sharing",
            values: "never|idle|wait",
            what: "free pages serve other streams never, once the device has passed the work before their free, or \
                   also after a wait where memory is short (default)",
        },
        Key {
            name: "plan",
            values: "auto|FILE",
            what: "offer requests the places of a plan (`vramtape plan`) first",
        },
    ],
};

impl From<Config> for Choice {
    fn from(config: Config) -> Self {
        Self::Native(config)
    }
}

impl Choice {
    /// Reads `NAME` or `NAME:SETTINGS`. The settings of `native` and `expandable` are PyTorch's, as the version that
    /// `compat` names reads them; those of the others are in the table.
    ///
    /// # Errors
    /// When there is no such strategy, or its settings make no sense.
    pub fn parse(text: &str, compat: Compat) -> Result<Self, StrategyError> {
        let (name, settings) = split(text);
        let settings = settings.unwrap_or_default();
        let row = match name {
            _ if name == NATIVE.name => NATIVE,
            _ if name == EXPANDABLE.name => EXPANDABLE,
            _ if name == STITCH.name => STITCH,
            _ => return Self::model(name, settings),
        };
        let parse = |text: &str| {
            let parsed = Config::parse(text, compat);
            parsed.map_err(|source| StrategyError::PyTorch { strategy: row.name, source })
        };
        if row == STITCH {
            let (base, rest) = stitch_settings(settings)?;
            let text = settings.to_owned();
            let parsed = parse(&rest)?.config;
            return Ok(Config { stitch: base.stitch, plan: base.plan, text, ..parsed }.into());
        }
        let config = parse(settings)?.config;
        if row == EXPANDABLE && !config.expandable_segments {
            let separator = if settings.is_empty() { "" } else { "," };
            return Ok(parse(&format!("{settings}{separator}expandable_segments:True"))?
                .config
                .into());
        }
        Ok(config.into())
    }
}

/// The settings of `stitch` in a text, its plan included, and the rest of it, which is PyTorch's.
///
/// # Errors
/// When a value is not understood, or the plan cannot be read.
pub fn stitch_settings(text: &str) -> Result<(Config, String), StrategyError> {
    let mut stitch = StitchConfig::default();
    let rest = stitch.take_from(text);
    let rest = rest.map_err(|(entry, values)| StrategyError::Stitch { entry, values })?;
    let (plans, rest): (Vec<_>, Vec<_>) = rest
        .split(',')
        .partition(|entry| entry.split_once(':').is_some_and(|(key, _)| key.trim() == "plan"));
    let path = plans.last().and_then(|entry| entry.split_once(':')).map(|(_, path)| path.trim());
    let plan = path.filter(|path| *path != "auto").map(|path| plan::read(Path::new(path)));
    let config = Config { stitch: Some(stitch), plan: plan.transpose()?, ..Config::default() };
    Ok((config, rest.join(",")))
}

/// The name of a strategy, and its settings if any are given.
pub fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, settings)) => (name.trim(), Some(settings.trim())),
        None => (text.trim(), None),
    }
}

/// The name of the live allocator with these settings.
pub fn name_of(config: &Config) -> &'static str {
    match (config.stitch, config.expandable_segments) {
        (Some(_), _) => STITCH.name,
        (None, true) => EXPANDABLE.name,
        (None, false) => NATIVE.name,
    }
}

/// The row of a strategy.
///
/// # Errors
/// When there is none of this name.
pub fn row(name: &str) -> Result<Row, StrategyError> {
    let row = TABLE.iter().find(|row| row.name == name).copied();
    row.ok_or_else(|| StrategyError::Unknown { name: name.to_owned() })
}

fn names() -> String {
    TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Choice::parse(text, Compat::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_name_that_is_not_in_the_table_is_an_error_that_lists_them() {
        let error = error("natve");
        assert!(TABLE.iter().all(|row| error.contains(row.name)), "{error}");
    }

    #[test]
    fn settings_that_make_no_sense_name_the_part_and_what_is_known() {
        for (text, part) in [
            ("bfc:grow:True", "`grow:True`: there is no `grow`; known: allow_growth:True|False"),
            ("bfc:allow_growth", "`allow_growth`: write KEY:VALUE; known: "),
            ("bfc:allow_growth:maybe", "`maybe` is neither True nor False"),
            ("bfc:allow_growth:True,allow_growth:True", "given twice"),
            ("bfc:fragmentation_fraction:2", "not a number from 0 to 1"),
            ("async-pool:passes_after:5", "write for example 500us"),
            ("rmm-pool:initial_pool_size:5GX", "`GX` is not a unit"),
            ("rmm-arena:arena_size:5KiB", "less than a superblock"),
            ("native:max_split_size_mb:3", "native: "),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
    }

    #[test]
    fn every_name_alone_is_a_strategy_and_expandable_is_native_with_a_setting() {
        for row in TABLE {
            assert_eq!(Choice::parse(row.name, Compat::default()).unwrap().name(), row.name);
        }
        let text = "expandable:max_split_size_mb:64";
        let choice = Choice::parse(text, Compat::default()).unwrap();
        assert_eq!(choice.name(), "expandable");
        assert_eq!(choice.text(), "max_split_size_mb:64,expandable_segments:True");
    }
}
