"""What the page has beside the look that all pages share: cards, text boxes, and the board of decisions."""

STYLE = """
:root { --mark: #d9730d; } @media (prefers-color-scheme: dark) { :root { --mark: #ffab5e; } }
html { scroll-padding-bottom: 15rem; } /* the board covers no control that one tabs to */
.clusters { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 34rem), 1fr)); gap: 1rem;
  margin-top: .8rem; }
.clusters.one { grid-template-columns: minmax(0, 1fr); }
article { background: var(--card); border-radius: .5rem; padding: .9rem; min-width: 0; display: grid; gap: .4rem 1rem;
  grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); grid-template-rows: auto 1fr auto; align-items: start;
  border: 2px solid transparent; }
article.decided { border-color: var(--link); }
article h3 { font-size: 1.05rem; line-height: 1.3; margin: 0; overflow-wrap: anywhere; }
article p, article li { font-size: .88rem; } article code { background: var(--paper); overflow-wrap: anywhere; }
figure { margin: 0; min-width: 0; } figcaption { font-size: .85rem; color: var(--soft); margin: .3rem 0 0; }
figure svg { border-radius: .3rem; max-height: 26rem; }
.none { display: grid; place-items: center; height: 8rem; background: var(--rule); color: var(--soft);
  border-radius: .3rem; }
.state { color: var(--soft); } .state.found { color: var(--mark); font-weight: 600; }
.state.rejected { color: var(--bad); font-weight: 600; }
.box rect { fill: none; stroke: var(--mark); stroke-width: 2; } .box rect.halo { stroke: #fff; stroke-width: 4.4;
  stroke-opacity: .8; }
.badge circle { fill: var(--mark); stroke: #fff; stroke-width: 1.5; }
.badge text { fill: #fff; font-size: 12px; font-weight: 700; text-anchor: middle; }
@media (prefers-color-scheme: dark) { .badge text { fill: #14171b; } }
.patch { display: inline-block; width: .8rem; height: .8rem; border: 1px solid var(--soft); border-radius: .15rem;
  vertical-align: -.08rem; margin-right: .25rem; }
.members { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: .3rem; list-style: none; margin: .2rem 0 0;
  padding: 0; }
.members img, .members .none { display: block; height: 5rem; width: auto; max-width: 100%; border-radius: .2rem; }
.members .none { width: 5rem; font-size: .75rem; padding: .3rem; overflow: hidden; }
.members a { display: block; border-radius: .2rem; }
a:focus-visible, input:focus-visible, button:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
ol.styles { margin: .5rem 0 0; padding-left: 1.4rem; color: var(--soft); }
fieldset { grid-column: 1 / -1; border: 0; border-top: 1px solid var(--rule); margin: .4rem 0 0; padding: .6rem 0 0;
  display: grid; grid-template-columns: 1fr 1fr auto; gap: .5rem 1rem; align-items: end; min-width: 0; }
fieldset[hidden] { display: none; }
legend { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
label { font-size: .85rem; color: var(--soft); min-width: 0; }
.ticks label { display: block; white-space: nowrap; } .ticks label:only-child { padding-bottom: .4rem; }
input[type=text] { display: block; width: 100%; margin-top: .15rem; padding: .3rem .5rem; font: inherit;
  color: var(--ink); background: var(--paper); border: 1px solid var(--soft); border-radius: .3rem; }
.closely { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 1.2rem; }
.one article { grid-template-columns: minmax(0, 1fr); } .one .closely svg { max-height: 40rem; }
.one .members img, .one .members .none { height: 9rem; }
#decisions { position: sticky; bottom: 0; margin: 1.5rem -1.25rem 0; padding: .8rem 1.25rem; background: var(--paper);
  border-top: 2px solid var(--link); } #decisions[hidden] { display: none; }
#decisions div { display: flex; flex-wrap: wrap; gap: .2rem 1rem; align-items: center; } #decisions h2 { margin: 0; }
#decisions p { flex: 1 11rem; }
button { font: inherit; font-weight: 600; padding: .3rem 1rem; border: 0; cursor: pointer; border-radius: .3rem;
  color: var(--paper); background: var(--link); }
pre { font: .85rem/1.5 ui-monospace, "SF Mono", Menlo, Consolas, monospace; margin: .5rem 0 0; padding: .5rem .7rem;
  max-height: 9rem; overflow: auto; background: var(--card); border-radius: .3rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media (max-width: 34rem) { article, fieldset { grid-template-columns: minmax(0, 1fr); }
  article { grid-template-rows: none; } .members img, .one .members img { height: 4.4rem; } }
@media print { #decisions { position: static; } article { break-inside: avoid; } }
"""
