//! One metric and its values, as the library that encodes them wants them.

use prometheus::proto::{Counter, Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// A label.
pub(super) type Label = (&'static str, String);

/// A metric without its values; its name goes without `vramtape_`, which all begin with.
pub(super) struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
}

/// A value that goes up and down.
pub(super) fn gauge(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: MetricType::GAUGE }
}

/// A value that only grows; its name ends in `_total`.
pub(super) fn counter(name: &'static str, help: &'static str) -> Family {
    Family { name, help, kind: MetricType::COUNTER }
}

impl Family {
    /// The metric with its values, each with the labels that tell them apart.
    pub(super) fn of(&self, values: impl IntoIterator<Item = (Vec<Label>, f64)>) -> MetricFamily {
        let metrics = values.into_iter().map(|(labels, value)| {
            let labels = labels.into_iter().map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name(name.to_owned());
                pair.set_value(value);
                pair
            });
            let mut metric = Metric::from_label(labels.collect());
            if self.kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(format!("vramtape_{}", self.name));
        family.set_help(self.help.to_owned());
        family.set_field_type(self.kind);
        family.set_metric(metrics.collect());
        family
    }
}
