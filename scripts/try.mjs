import {readFileSync} from 'node:fs';
import {questionOf} from '../dist/src/gateway/semantic/text/question.js';
import {objectionsTo} from '../dist/src/gateway/semantic/vetoes/vetoes.js';
const rows=readFileSync(process.argv[2],'utf8').trim().split('\n').map(l=>JSON.parse(l));
const ctx={strictness:process.argv[3]??'strict',rarity:()=>0.5};
const show=q=>q.form.kind+'|'+q.form.cues.join(',')+'|'+q.form.parts.map(p=>p.text).join(' ');
let tp=0,fp=0,fn=0;
for(const r of rows){const a=questionOf(r.a),b=questionOf(r.b);const o=objectionsTo(a,b,ctx);const hit=o.length===0;
 if(hit&&r.same)tp++; if(hit&&!r.same){fp++;console.log('FALSE HIT',r.a,'~',r.b,'\n   ',show(a),'\n   ',show(b));}
 if(!hit&&r.same){fn++;console.log('missed',o.join(','),':',r.a,'~',r.b,'\n   ',show(a),'\n   ',show(b));}
 if(!hit&&!r.same&&process.argv[4]&&o.join()==='content')console.log('only content',r.class,':',r.a,'~',r.b);}
console.log({tp,fp,fn});
