//! Pictures against the records that they show.

use std::collections::HashSet;

use replay::tape::{Device, Tape};
use resvg::tiny_skia::Pixmap;
use serde_json::Value;
use trace_format::{
    Addr, Category, DeviceId, DeviceMeta, Event, MarkKind, PoolId, Record, StackId, Stream,
    ThreadId,
};
use viewer::{Picture, PictureError, PictureOptions, Size, Source, Theme};

use crate::{random_tape, truth};

fn draw(tapes: &[(&str, &Tape)], options: &PictureOptions) -> Result<Picture, PictureError> {
    let devices: Vec<Source<'_>> = tapes
        .iter()
        .flat_map(|&(run, tape)| {
            tape.devices.iter().map(move |device| Source { run, tape, device, facts: &[] })
        })
        .collect();
    viewer::draw(tapes[0].0, &devices, options, &mut |_| ())
}

fn tape_of(events: Vec<Event>) -> Tape {
    let record = |(at, event)| {
        let (thread, stack) = (ThreadId(1), StackId::NONE);
        Record { time_ns: at as u64, thread, stack, event }
    };
    let records = events.into_iter().enumerate().map(record).collect();
    let device = Device { id: DeviceId(0), records, ..Device::default() };
    Tape { devices: vec![device], ..Tape::default() }
}

fn alloc(gib: u64, size_bytes: u64) -> Event {
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    Event::Alloc { addr: Addr(gib << 30), requested_bytes: size_bytes, size_bytes, stream, pool }
}

fn map(size_bytes: u64) -> Event {
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    Event::SegmentAlloc { addr: Addr(1 << 30), size_bytes, stream, pool, is_large: true }
}

fn oom() -> Event {
    let (size_bytes, stream, pool) = (5 << 30, Stream(0), PoolId::DEFAULT);
    Event::Oom { requested_bytes: size_bytes, size_bytes, device_free_bytes: 0, stream, pool }
}

/// The stack of an SVG, read back.
struct Stack {
    column_moments: usize,
    top_bytes: f64,
    /// Left, top, width and height.
    plot: [f64; 4],
    /// Labels and path data, from the top of the stack.
    bands: Vec<(String, String)>,
}

impl Stack {
    fn of(svg: &str) -> Self {
        let (_, stack) = svg.split_once("<g id=\"stack\"").expect("a stack");
        let (stack, _) = stack.split_once("</g>\n</g>").expect("its end");
        let attribute = |name: &str| {
            let (_, value) = stack.split_once(&format!("{name}=\"")).expect("an attribute");
            value.split_once('"').expect("its end").0
        };
        let plot: Vec<f64> =
            attribute("data-plot").split(' ').map(|it| it.parse().unwrap()).collect();
        let band = |path: &str| {
            let (_, data) = path.split_once(" d=\"").expect("path data");
            let (data, rest) = data.split_once('"').expect("its end");
            let (_, label) = rest.split_once("<title>").expect("a label");
            (label.split_once("</title>").unwrap().0.to_owned(), data.to_owned())
        };
        Self {
            column_moments: attribute("data-column-moments").parse().unwrap(),
            top_bytes: attribute("data-top-bytes").parse().unwrap(),
            plot: plot.try_into().unwrap(),
            bands: stack.split("<path ").skip(1).map(band).collect(),
        }
    }

    /// The bytes up to the upper edge of a band at a place of the horizontal axis.
    fn bytes_at(&self, data: &str, x: f64) -> f64 {
        let [_, top, _, height] = self.plot;
        let mut y = f64::NAN;
        for part in data.split('V').skip(1) {
            let (height, right) = part.split_once('H').expect("a column around the place");
            y = height.parse().unwrap();
            if right.parse::<f64>().unwrap() > x {
                break;
            }
        }
        (1.0 - (y - top) / height) * self.top_bytes
    }

    /// Bytes of a hundredth of a pixel: coordinates have no more digits.
    fn tolerance(&self) -> f64 {
        0.011 * self.top_bytes / self.plot[3]
    }
}

#[test]
fn bands_of_each_column_are_those_of_its_peak_moment() {
    for (seed, records, width) in [(5, 300, 1280), (6, 4000, 1280), (7, 20_000, 731)] {
        let tape = random_tape(seed, records);
        let truth = truth(&tape.devices[0]);
        let size = Size { width, height: 720 };
        let group_by = Some("category".to_owned());
        let options = PictureOptions { size, group_by, theme: Theme::Light };
        let stack = Stack::of(&draw(&[("run", &tape)], &options).unwrap().svg);
        let moments = truth.allocated.len();
        let [left, _, plot_width, _] = stack.plot;
        assert!(
            moments.div_ceil(stack.column_moments) as f64 >= plot_width.min(moments as f64) / 2.0
        );
        let name = |at: usize| Category::ALL.get(at).map_or("other", |it| it.name());
        for (column, allocated) in truth.allocated.chunks(stack.column_moments).enumerate() {
            let first = column * stack.column_moments;
            let most = *allocated.iter().max().unwrap();
            let peak = first + allocated.iter().position(|it| *it == most).unwrap();
            let end = moments.next_multiple_of(stack.column_moments) as f64;
            let edge = |moment: usize| (plot_width * moment as f64 / end).round();
            let next = first + stack.column_moments;
            let x = left + f64::midpoint(edge(first), edge(next));
            let mut above = stack.bytes_at(&stack.bands[0].1, x);
            assert!(
                (above - most as f64).abs() <= stack.tolerance(),
                "seed {seed}, column {column}"
            );
            for (place, (label, _)) in stack.bands.iter().enumerate() {
                let below =
                    stack.bands.get(place + 1).map_or(0.0, |(_, data)| stack.bytes_at(data, x));
                // A group that nowhere reaches half a pixel is in the band of all smaller ones.
                let is_drawn = |at: usize| stack.bands.iter().any(|(label, _)| label == name(at));
                let is_in = |at: &usize| match &label[..] {
                    "all smaller groups" => !is_drawn(*at),
                    label => label == name(*at),
                };
                let expected: u64 = (0..4).filter(is_in).map(|at| truth.categories[peak][at]).sum();
                let expected = expected as f64;
                let found = above - below;
                let is_same = (found - expected).abs() <= 2.0 * stack.tolerance();
                assert!(is_same, "seed {seed}, column {column}, {label}: {found} for {expected}");
                above = below;
            }
        }
    }
}

#[test]
fn pixels_of_a_group_have_the_colour_of_the_page() {
    let gib = 1u64 << 30;
    let category = |at, category| Event::Category { addr: Addr(at * gib), category };
    let mut events = vec![map(4 * gib)];
    for (at, kind) in [(1, Category::Parameter), (2, Category::Gradient)] {
        events.extend([alloc(at, gib), category(at, kind)]);
    }
    events.extend((0..200).map(|_| Event::Snapshot { active_bytes: 2 * gib }));
    let tape = tape_of(events);
    let vectors: Value =
        serde_json::from_str(include_str!("../../page/test/colours.json")).unwrap();
    for (theme, tones) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
        let options = PictureOptions { theme, ..PictureOptions::default() };
        let picture = draw(&[("run", &tape)], &options).unwrap();
        let stack = Stack::of(&picture.svg);
        let pixels = Pixmap::decode_png(&picture.png().unwrap()).unwrap();
        assert_eq!((pixels.width(), pixels.height()), (1280, 720));
        let [left, top, width, height] = stack.plot;
        let at = |bytes: f64| {
            let y = top + height * (1.0 - bytes / stack.top_bytes);
            // Beside the lines of the grid.
            let pixel = pixels.pixel((left + width * 0.77) as u32, y as u32).unwrap();
            format!("#{:02x}{:02x}{:02x}", pixel.red(), pixel.green(), pixel.blue())
        };
        let bands: Vec<&str> = stack.bands.iter().rev().map(|(label, _)| &label[..]).collect();
        assert_eq!(bands, [Category::Parameter.name(), Category::Gradient.name()]);
        // The hues of parameters and of gradients.
        for (bytes, hue) in [(0.5, 3), (1.5, 0)] {
            assert_eq!(at(bytes * gib as f64), vectors["tones"][tones][hue], "{tones}");
        }
    }
}

#[test]
fn every_tape_has_a_picture() {
    let long = "long \u{1F600} name ".repeat(1000);
    let markup = "</title><script>alert(1)</script>&amp;\u{0}\u{1b}[31m\u{202e}\"'\n\u{ffff}";
    let mut named = tape_of(vec![map(4 << 20), alloc(1, 1 << 20)]);
    for name in [&long, markup] {
        let id = named.stacks.add_string(name);
        let device = &mut named.devices[0];
        let mark = |kind, name| Record { event: Event::Mark { kind, name }, ..device.records[0] };
        let more = [mark(MarkKind::Step, id), mark(MarkKind::Phase, id)];
        device.records.extend(more);
        let at = device.records.len() as u64;
        device.records.push(Record { event: alloc(at, 1 << 20), ..device.records[0] });
    }
    named.meta.devices = vec![DeviceMeta { name: markup.to_owned(), ..DeviceMeta::default() }];
    let huge = tape_of(vec![map(1 << 60), alloc(1, 1 << 60), oom()]);
    let ooms = tape_of((0..5000).map(|_| oom()).collect());
    let tapes = [
        ("no device", Tape::default(), "no records"),
        ("no record", tape_of(Vec::new()), "no records"),
        ("one record", tape_of(vec![map(2 << 20)]), "peak reserved 2.00 MiB"),
        ("out of memory at once", tape_of(vec![oom()]), "out-of-memory errors: 1."),
        ("many times", ooms, "out-of-memory errors: 5000."),
        ("names", named, "peak allocated 3.00 MiB"),
        ("huge", huge, "peak allocated 1024.00 PiB"),
    ];
    for (name, tape, words) in &tapes {
        for size in ["480x320", "1280x720", "2000x330", "481x3000"] {
            let size = size.parse().unwrap();
            for group_by in [None, Some("size".to_owned())] {
                let options = PictureOptions { size, group_by, theme: Theme::Dark };
                let run = if *name == "names" { markup } else { name };
                let picture = draw(&[(run, tape)], &options).unwrap();
                let Picture { svg, .. } = &picture;
                assert!(svg.len() < 300_000, "{name}: {} bytes", svg.len());
                assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{name}");
                let (_, description) = svg.split_once("<desc id=\"description\">").unwrap();
                let (description, _) = description.split_once("</desc>").unwrap();
                assert!(
                    description.contains(words) || *words == "no records",
                    "{name}: {description}"
                );
                let pixels = Pixmap::decode_png(&picture.png().unwrap()).unwrap();
                let colours: HashSet<&[u8]> = pixels.data().chunks(4).collect();
                assert!(colours.len() > 5, "{name}: an empty picture");
            }
        }
    }
}

#[test]
fn several_devices_are_drawn_by_the_worst() {
    let small = tape_of(vec![map(2 << 20), oom()]);
    let large = tape_of(vec![map(4 << 30)]);
    let larger = tape_of(vec![map(5 << 30), alloc(1, 1 << 20)]);
    let shown = |tapes: &[(&str, &Tape)]| {
        let picture = draw(tapes, &PictureOptions::default()).unwrap();
        let (_, title) = picture.svg.split_once("<title id=\"title\">").unwrap();
        (picture.run, title.split_once(':').unwrap().0.to_owned())
    };
    let all = [("a", &large), ("b", &small), ("c", &larger)];
    assert_eq!(shown(&all), ("b".into(), "device 0 of b, the worst of 3".into()));
    assert_eq!(shown(&[all[0], all[2]]).0, "c", "the most reserved");
    assert_eq!(shown(&[("x", &large), ("y", &large)]).0, "x", "the first of equal ones");
    assert_eq!(shown(&all[..1]), ("a".into(), "a".into()));
}

#[test]
fn a_missing_grouping_is_an_error_with_those_that_there_are() {
    let tape = tape_of(vec![map(2 << 20), alloc(1, 1 << 20)]);
    let options = PictureOptions { group_by: Some("colour".into()), ..PictureOptions::default() };
    let error = draw(&[("run", &tape)], &options).unwrap_err().to_string();
    let known = "use one of code, size, lifetime, stream, pool";
    assert_eq!(error, format!("run: device 0 has no grouping colour: {known}"));
}
