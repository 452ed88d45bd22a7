package plans
import ("testing";"os";"strings";"github.com/isobit-ml/isobit/tensor";"math/rand/v2";"unsafe";"strconv")
func BenchmarkZZ(b *testing.B){
 p:=MustParse(os.Getenv("P"))
 SetNumThreads(1)
 plan,err:=Select(0,p,Preference{Threads:1}); if err!=nil {b.Fatal(err)}
 var views []tensor.View
 lo,hi:= -1.0,1.0
 for _,a:=range Describe(plan).Args {
  if !a.Present { views=append(views,tensor.View{}); continue }
  d,_:=tensor.ParseDType(a.DType); n:=int64(1); for _,s:=range a.Shape {n*=s}
  mem:=make([]byte,n*d.Size()+64)
  v:=tensor.View{Data:unsafe.Pointer(&mem[0]),DType:d,Shape:a.Shape}
  st:=int64(1); v.Strides=make([]int64,len(a.Shape)); for i:=len(a.Shape)-1;i>=0;i-- {v.Strides[i]=st; st*=a.Shape[i]}
  if d==tensor.F32 { x:=unsafe.Slice((*float32)(v.Data),n); for i:=range x {x[i]=float32(lo+(hi-lo)*rand.Float64())} }
  if d==tensor.F64 { x:=unsafe.Slice((*float64)(v.Data),n); for i:=range x {x[i]=lo+(hi-lo)*rand.Float64()} }
  if a.Name=="grid" && os.Getenv("RANDOM")=="" { // identity, turned a little
    dims:=int(a.Shape[len(a.Shape)-1]); sizes:=a.Shape[1:len(a.Shape)-1]
    for i:=int64(0);i<n/int64(dims);i++ { at:=i; var c [3]float64
      for k:=0;k<dims;k++ { s:=sizes[len(sizes)-1-k]; c[k]=(2*float64(at%s)+1)/float64(s)-1; at/=s }
      q:=[3]float64{0.95*c[0]+0.1*c[1],0.97*c[1]-0.12*c[0]+0.02,c[2]*0.99}
      for k:=0;k<dims;k++ { if d==tensor.F32 { unsafe.Slice((*float32)(v.Data),n)[i*int64(dims)+int64(k)]=float32(q[k]) } else { unsafe.Slice((*float64)(v.Data),n)[i*int64(dims)+int64(k)]=q[k] } } } }
  views=append(views,v)
 }
 _=strings.TrimSpace; _=strconv.Itoa
 ws:=make([]byte,plan.WorkspaceSize()+64)
 ws=ws[(64-uintptr(unsafe.Pointer(&ws[0]))%64)%64:][:plan.WorkspaceSize()]
 b.ResetTimer()
 for range b.N { if err:=plan.Run(0,ws,views);err!=nil {b.Fatal(err)} }
}
