"""What the pages about reading have beside the look that all pages share: marks, chips, cards."""

STYLE = """
:root { --sure: #138a63; --fair: #2563c9; --doubtful: #b85c00; --poor: #c2185b; --gone: #69727d; }
@media (prefers-color-scheme: dark) {
  :root { --sure: #45cf9d; --fair: #6aa5ff; --doubtful: #ffab5e; --poor: #ff7ec3; --gone: #98a2ae; } }
h3 { font-size: 1rem; margin: 1.4rem 0 .5rem; font-weight: 600; }
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
.chart { background: var(--card); border-radius: .5rem; padding: .8rem .9rem; }
.chart text { font-size: 12px; fill: var(--soft); text-anchor: middle; } .chart .value { text-anchor: end; }
.chart i { background: currentColor; }
.chart rect { stroke: none; fill: currentColor; } .chart path { stroke: var(--rule); fill: none; }
"""
