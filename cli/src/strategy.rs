//! `--strategy NAME[:SETTINGS]`.

use std::fmt::Write as _;
use std::str::FromStr;

use replay::strategy::table::{Row, row, split};
use replay::strategy::{Choice, StrategyError, TABLE};
use settings::Compat;

/// A strategy of the table; a model's settings are good.
#[derive(Clone, Debug)]
pub(crate) struct StrategyFlag {
    text: String,
    model: Option<Box<Choice>>,
}

impl FromStr for StrategyFlag {
    type Err = StrategyError;

    fn from_str(text: &str) -> Result<Self, StrategyError> {
        let is_live = row(split(text).0)?.is_live;
        // PyTorch's settings are read when it is known whose: by the run's version.
        let choice = || Choice::parse(text, Compat::default()).map(Box::new);
        let model = (!is_live).then(choice).transpose()?;
        Ok(Self { text: text.to_owned(), model })
    }
}

impl StrategyFlag {
    /// A live strategy with its defaults.
    pub(crate) fn live(row: &Row) -> Self {
        Self { text: row.name.to_owned(), model: None }
    }

    /// The name, and the settings if there are any.
    pub(crate) fn parts(&self) -> (&str, Option<&str>) {
        split(&self.text)
    }

    /// The model with its settings, if it is one.
    pub(crate) fn model(&self) -> Option<Choice> {
        self.model.as_deref().cloned()
    }
}

/// All models with their defaults.
pub(crate) fn models() -> impl Iterator<Item = Result<Choice, StrategyError>> {
    let models = TABLE.iter().filter(|row| !row.is_live);
    models.map(|row| Choice::parse(row.name, Compat::default()))
}

/// Whether a strategy can be had live, on real GPUs: only that counts where a table recommends.
pub(crate) fn is_proven(name: &str) -> bool {
    row(name).is_ok_and(|row| row.is_proven())
}

/// The table as `--help` shows it, under a first line that describes the flag.
pub(crate) fn table(first: &str) -> String {
    let mut text = format!(
        "{first}\n\nThe strategies, and the settings that go behind their names; those of native and expandable are \
         PyTorch's:\n"
    );
    for row in TABLE {
        let only = if row.is_live { "" } else { " (a model, for comparison)" };
        let _ = write!(text, "\n- {}: {}{only}", row.name, row.what);
        for key in row.keys {
            let _ = write!(text, "\n  - {}:{}  {}", key.name, key.values, key.what);
        }
    }
    text
}
