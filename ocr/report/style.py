"""The look of the pages, that of the crawl's: light or dark as the reader's system is, one column on a phone."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f6f7f9; --ink: #1b1f24; --soft: #5b6470; --rule: #d9dde3;
  --bad: #b3261e; --good: #1a7f4b; --warn: #8a5a00;
  --sure: #138a63; --fair: #2563c9; --doubtful: #b85c00; --poor: #c2185b; --gone: #69727d; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --card: #1d2126; --ink: #e8eaed; --soft: #a2abb7; --rule: #363c45;
    --bad: #ff8a80; --good: #63d297; --warn: #f2b84b;
    --sure: #45cf9d; --fair: #6aa5ff; --doubtful: #ffab5e; --poor: #ff7ec3; --gone: #98a2ae; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 3rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .5rem; font-weight: 600; }
p { margin: .3rem 0; } .soft { color: var(--soft); } a { color: var(--fair); overflow-wrap: anywhere; }
.how { display: inline-block; margin: .7rem 0 0; padding: .1rem .6rem; border-radius: 1rem; font-weight: 600;
  border: 1px solid; }
.how.good { color: var(--good); } .how.bad { color: var(--bad); } .how.warn { color: var(--warn); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(46%, 11rem), 1fr)); gap: .7rem;
  margin: 1.4rem 0 0; }
dl div { background: var(--card); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; }
dd small { display: block; font-size: .8rem; color: var(--soft); min-height: 1.2em; }
svg { display: block; width: 100%; height: auto; }
.sure { color: var(--sure); } .fair { color: var(--fair); } .doubtful { color: var(--doubtful); }
.poor { color: var(--poor); } .gone, .empty { color: var(--gone); }
svg rect { fill: none; stroke: currentColor; } .word rect { fill: currentColor; fill-opacity: .06; stroke-width: 1.4; }
.gone rect { stroke-dasharray: 4 3; stroke-width: 1.2; fill: #fff; fill-opacity: .12; }
.gone path { stroke: var(--bad); stroke-width: 2; } .box rect { stroke-width: 2.2; }
.box .halo rect { stroke: #fff; stroke-opacity: .85; stroke-width: 4.6; } .box.empty rect { stroke-dasharray: 2 4; }
.badge circle { fill: currentColor; stroke: #fff; stroke-width: 1.5; }
.badge text { fill: var(--paper); font-size: 13px; font-weight: 700; text-anchor: middle; }
.look { display: grid; grid-template-columns: minmax(0, 6fr) minmax(0, 5fr); gap: 2rem; margin-top: 1.4rem; }
.look h2:first-child { margin-top: 0; } figure { margin: 0; min-width: 0; }
@media (max-width: 50rem) { .look { grid-template-columns: minmax(0, 1fr); } }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .6rem 0 0; padding: 0;
  font-size: .85rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; margin-right: .35rem; border-radius: .15rem;
  border: 2px solid currentColor; vertical-align: -.08rem; }
.legend i.gone { border-style: dashed; }
ol.boxes, ol.lines { list-style: none; margin: 0; padding: 0; }
ol.boxes li { display: grid; grid-template-columns: auto 1fr auto; gap: .2rem .7rem; padding: .45rem 0;
  border-bottom: 1px solid var(--rule); align-items: baseline; }
.number { display: inline-block; min-width: 1.6em; padding: 0 .35em; border-radius: 1em; text-align: center;
  font-weight: 700; font-size: .85rem; background: currentColor; } .number b { color: var(--paper); }
.text { font-size: 1.1rem; overflow-wrap: anywhere; white-space: pre-wrap; }
.percent { font-variant-numeric: tabular-nums; font-weight: 600; }
ol.lines li { padding: .3rem 0; border-bottom: 1px solid var(--rule); }
.chip { display: inline-block; margin: .12rem .25rem .12rem 0; padding: 0 .45rem; border: 1px solid currentColor;
  border-radius: .35rem; max-width: 100%; } .chip bdi { color: var(--ink); overflow-wrap: anywhere; }
.chip small { margin-left: .4rem; font-variant-numeric: tabular-nums; }
.chip.gone { border-style: dashed; } .chip.gone bdi { text-decoration: line-through; color: var(--soft); }
.chip.gone small { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: 1rem;
  margin-top: .8rem; }
.card { background: var(--card); border-radius: .5rem; padding: .7rem; min-width: 0; display: grid; gap: .7rem;
  grid-template-columns: 12rem minmax(0, 1fr); align-items: start; font-size: .9rem; }
.card svg { max-height: 22rem; }
.card ol.boxes li { padding: .15rem 0; border: 0; } .card .text { font-size: .9rem; line-height: 1.35; }
.card .none { display: grid; place-items: center; height: 6rem; background: var(--rule); color: var(--soft);
  border-radius: .3rem; }
.card .confidence { font-size: 1.15rem; font-weight: 700; } .card .confidence small { font-size: .8rem;
  font-weight: 400; color: var(--soft); }
.card p.id { overflow-wrap: anywhere; font-size: .8rem; margin-top: .4rem; }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 2rem; }
.chart { background: var(--card); border-radius: .5rem; padding: .8rem .9rem; }
.chart text { font-size: 12px; fill: var(--soft); text-anchor: middle; } .chart .value { text-anchor: end; }
.chart i { background: currentColor; }
.chart rect { stroke: none; fill: currentColor; } .chart path { stroke: var(--rule); fill: none; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .28rem .9rem .28rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
  overflow-wrap: anywhere; }
th { font-weight: 500; } thead th { color: var(--soft); font-size: .85rem; }
.n { text-align: right; white-space: nowrap; padding-right: .2rem; }
code { font: .9em ui-monospace, "SF Mono", Menlo, Consolas, monospace; background: var(--card); padding: .05em .3em;
  border-radius: .2em; }
"""
